#!/bin/sh
# Measure a machine with a GPU within 8 minutes, what matters most first: benchmarks/gpu.sh DIR
# DIR/NAME.json has each result as soon as it is there, DIR/NAME.log what was printed. No network is needed.
# PYTHON names the interpreter with xagents-ray; python3 if it is not set.
# SB3 names that of an environment with Stable-Baselines3 (benchmarks/peers.sh); without it, nothing is compared.
# LIMIT is the number of seconds for all of it; a part for which no time is left is left out.
# REHEARSE=1 runs the same commands with few steps, to try them on a machine without a GPU.
set -u
[ $# = 1 ] || { echo "usage: benchmarks/gpu.sh DIR" >&2; exit 2; }
mkdir -p "$1" || exit
dir=$(cd "$1" && pwd)
cd "$(dirname "$0")/.." || exit
python=${PYTHON:-python3}
most=120 limit=460 device=cuda
[ -z "${REHEARSE:-}" ] || { most=600 limit=3600 device=cpu; }
end=$(($(date +%s) + ${LIMIT:-$limit}))
failed=0

step() { # NAME COMMAND…
    name=$1 && shift
    left=$((end - $(date +%s)))
    [ $left -lt $most ] || left=$most
    [ $left -ge 10 ] || { echo "$name: no time is left"; return; }
    # Only the command gets the signal: it ends what it started, Ray included.
    timeout --foreground -k 15 $left "$python" -m benchmarks "$@" --json "$dir/$name.json" >"$dir/$name.log" 2>&1
    code=$?
    echo "$name: exit code $code, $((end - $(date +%s))) s left"
    tail -n 12 "$dir/$name.log"
    [ $code = 0 ] || failed=1
}

speed() { # NAME WORK ENV-STEPS WARMUP OPTION…
    name=$1 work=$2 steps=$3 warmup=$4 && shift 4
    if [ -n "${REHEARSE:-}" ]; then
        steps=640 warmup=0
        case $work in
        ppo-*) set -- "$@" --set n-steps=8 --set ppo-epochs=1 ;;
        *) set -- "$@" --set buffer-initial-size=128 ;;
        esac
    fi
    step "$name" throughput --work "$work" --runs 1 --bare --steps "$steps" --warmup "$warmup" "$@"
}

pong() { # NAME N-ENVS ENV-STEPS WARMUP OPTION…
    name=$1 envs=$2 steps=$3 warmup=$4 && shift 4
    [ -z "${REHEARSE:-}" ] || envs=$((envs / 8))
    speed "$name" ppo-pong "$steps" "$warmup" --mode ray-lag-1 --set "n-envs=$envs" "$@"
}

peer=
[ -z "${SB3:-}" ] || peer="--vs sb3=$SB3 --peer-device $device --peer-vec subproc"
half="--set precision=bfloat16 --set allow-slow-precision=true"

# Words that are split are options.
# shellcheck disable=SC2086
{
    step cores cores ${REHEARSE:+--n-envs 1 --seconds 0}
    pong ppo-256-learner 256 196608 65536 --set inference=learner
    pong ppo-256-actor 256 196608 65536 --set inference=actor
    pong ppo-16-learner 16 40960 4096 --set inference=learner $peer
    pong ppo-16-actor 16 40960 4096 --set inference=actor
    pong ppo-256-learner-bfloat16 256 196608 65536 --set inference=learner $half
    pong ppo-16-learner-bfloat16 16 40960 4096 --set inference=learner $half
    speed dqn-pong dqn-pong 8000 1500 --mode ray-lag-1 $peer
    speed sac-pendulum sac-pendulum-256 4500 1500 --mode local $peer
}
exit $failed
