#!/bin/sh
# Train DQN in two sessions, as if Ctrl-C had ended the first one; the replay buffer is kept too.
# Prints the progress of both and the mean return of the best weights.
set -eu
xagents-ray train dqn --env CartPole-v1 --preset --local --checkpoint-replay --max-steps 20000
xagents-ray train dqn --resume last --max-steps 50000
xagents-ray evaluate dqn --run last --which best --episodes 20
