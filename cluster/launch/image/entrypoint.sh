#!/bin/sh
# head | worker | train AGENT … | any other command of xagents-ray
#
# HEAD          host:port of the cluster that `worker` joins and `train` trains on;
#               without it, `train` starts a Ray of its own in this container.
# RAY_AUTH_TOKEN_PATH
#               file with the token that all nodes share.
#
# More words after `head` and `worker` are options of `ray start`.
set -eu

# Set what the processes of a node need; refuse to start one without a token.
prepare_node() {
    export RAY_AUTH_MODE=token
    if [ -z "${RAY_AUTH_TOKEN:-}" ] && [ ! -s "${RAY_AUTH_TOKEN_PATH:-}" ]; then
        echo "There is no token: let RAY_AUTH_TOKEN_PATH name a file that holds it." >&2
        exit 2
    fi
    # Workers would be starved by a busy neighbor at Ray's niceness of 15.
    export RAY_worker_niceness="${RAY_worker_niceness:-0}"
    export RAY_USAGE_STATS_ENABLED="${RAY_USAGE_STATS_ENABLED:-0}"
}

role=${1:-head}
case $role in
head)
    [ $# -eq 0 ] || shift
    prepare_node
    exec ray start --head --block --dashboard-host 0.0.0.0 "$@"
    ;;
worker)
    shift
    prepare_node
    exec ray start --block --address "${HEAD:?must name the head as host:port}" "$@"
    ;;
train | tune)
    if [ -n "${HEAD:-}" ]; then
        prepare_node
        # A driver of Ray runs on a node: here on one that takes no work.
        ray start --address "$HEAD" --num-cpus 0 --num-gpus 0 >/dev/null
        set -- "$@" --address "$HEAD"
    fi
    exec xagents-ray "$@"
    ;;
*)
    exec xagents-ray "$@"
    ;;
esac
