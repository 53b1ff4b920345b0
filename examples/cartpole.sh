#!/bin/sh
# Train PPO on CartPole, then measure it, record a video and draw how it learned. Prints the progress
# and the mean return of 20 episodes, near 500; the video is videos/game-1.mp4.
set -eu
xagents-ray train ppo --env CartPole-v1 --preset --local --history-checkpoint cartpole.parquet
xagents-ray evaluate ppo --run last --episodes 20
xagents-ray play ppo --run last --video-dir videos
xagents-ray plot cartpole.parquet --smoothing 20 --output cartpole.png
