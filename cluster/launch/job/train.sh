#!/bin/sh
# What is submitted: it runs on the cluster's head, where Ray sets RAY_ADDRESS.
set -eu
cd "$(dirname "$0")"
PATH=$HOME/xagents-ray/bin:$PATH
exec {{shell_command}} --address "$RAY_ADDRESS"
