#!/bin/sh
# head | worker | train AGENT … | any other command of xagents-ray
#
# HEAD          host:port of the cluster that `worker` joins and `train` trains on;
#               without it, `train` starts a Ray of its own in this container.
# RAY_AUTH_TOKEN_PATH
#               file with the token that all nodes share.
# RAY_USE_TLS   1 encrypts what nodes send each other. Each makes a certificate of its
#               own with the CA, ca.crt and ca.key in the folder TLS_CA, unless Ray's
#               variables (RAY_TLS_SERVER_CERT, …) name one.
#
# More words after `head` and `worker` are options of `ray start`.
set -eu

# Set what the processes of a node need; refuse to start one without a token.
# The arguments are those of `ray start`.
prepare_node() {
    export RAY_AUTH_MODE=token
    if [ -z "${RAY_AUTH_TOKEN:-}" ] && [ ! -s "${RAY_AUTH_TOKEN_PATH:-}" ]; then
        echo "There is no token: let RAY_AUTH_TOKEN_PATH name a file that holds it." >&2
        exit 2
    fi
    # Workers would be starved by a busy neighbor at Ray's niceness of 15.
    export RAY_worker_niceness="${RAY_worker_niceness:-0}"
    export RAY_USAGE_STATS_ENABLED="${RAY_USAGE_STATS_ENABLED:-0}"
    if [ "${RAY_USE_TLS:-0}" = 1 ] && [ -z "${RAY_TLS_SERVER_CERT:-}" ]; then
        make_certificate "$@"
    fi
}

# Make this node's certificate, for all names and addresses that it may be reached by.
make_certificate() {
    if [ ! -r "${TLS_CA:-}/ca.key" ]; then
        echo "There is no CA: let TLS_CA name a folder with ca.crt and ca.key." >&2
        exit 2
    fi
    names="DNS:$(hostname),DNS:localhost,IP:127.0.0.1"
    for address in $(hostname -I); do names="$names,IP:$address"; done
    for word; do
        case $word in --node-ip-address=*) names="$names,IP:${word#*=}" ;; esac
    done
    own=$(mktemp -d)
    export RAY_TLS_CA_CERT="$TLS_CA/ca.crt"
    export RAY_TLS_SERVER_CERT="$own/node.crt" RAY_TLS_SERVER_KEY="$own/node.key"
    openssl req -x509 -CA "$TLS_CA/ca.crt" -CAkey "$TLS_CA/ca.key" -days 3650 -noenc \
        -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=ray \
        -addext "subjectAltName=$names" -addext basicConstraints=critical,CA:FALSE \
        -keyout "$own/node.key" -out "$own/node.crt"
}

# Print the name of a new folder for Ray. It lets all users write to it, so it lies in one
# that only this user can enter.
new_folder() {
    echo "$(mktemp -d)/r"
}

role=${1:-head}
case $role in
head)
    [ $# -eq 0 ] || shift
    prepare_node "$@"
    exec ray start --head --block --dashboard-host 0.0.0.0 --temp-dir "$(new_folder)" "$@"
    ;;
worker)
    shift
    prepare_node "$@"
    exec ray start --block --address "${HEAD:?must name the head as host:port}" \
        --temp-dir "$(new_folder)" "$@"
    ;;
train | tune)
    if [ -n "${HEAD:-}" ]; then
        prepare_node
        # A driver of Ray runs on a node: here on one that takes no work.
        ray start --address "$HEAD" --num-cpus 0 --num-gpus 0 \
            --temp-dir "$(new_folder)" >/dev/null
        set -- "$@" --address "$HEAD"
    fi
    exec xagents-ray "$@"
    ;;
*)
    exec xagents-ray "$@"
    ;;
esac
