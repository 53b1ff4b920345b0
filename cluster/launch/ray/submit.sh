#!/bin/sh
# Submit the training to a cluster, and follow it; files/ goes with it.
#
# RAY_ADDRESS is the address of the cluster's dashboard. The token is the cluster's own,
# in RAY_AUTH_TOKEN, in the file that RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token.
set -eu
cd "$(dirname "$0")"
export RAY_AUTH_MODE=token RAY_ADDRESS="${RAY_ADDRESS:-http://127.0.0.1:8265}"
exec ray job submit --working-dir files -- sh train.sh
