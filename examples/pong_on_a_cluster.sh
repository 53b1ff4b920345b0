#!/bin/sh
# Train DQN on Pong on a cluster, `sh pong_on_a_cluster.sh HEAD:6379` on one of its nodes, then measure
# and record a video there. Prints the progress with where the time goes, and the mean score of ten games, 21
# at most.
#
# A cluster is xagents-ray on each machine, then `RAY_AUTH_MODE=token ray start --head --port 6379`
# on the first and `RAY_AUTH_MODE=token ray start --address HEAD:6379` on the others, all with the
# same RAY_AUTH_TOKEN, which this script needs too. Or let `xagents-ray launch` write its files.
set -eu
xagents-ray train dqn --env PongNoFrameskip-v4 --preset --address "$1" --n-envs 32 --n-actors 8 \
    --replay-shards 2 --policy-lag 1 --profile
xagents-ray evaluate dqn --run last --episodes 10
xagents-ray play dqn --run last --video-dir videos
