#!/bin/sh
# Train DQN in two sessions; the second one begins with the replay buffer of the first.
# Prints the progress of both and the mean return of the best weights.
set -eu
xagents-ray train dqn --env CartPole-v1 --preset --local --checkpoint-replay --max-steps 20000
xagents-ray train dqn --resume last --max-steps 50000
xagents-ray evaluate dqn --run last --which best --episodes 20
