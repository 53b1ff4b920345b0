#!/bin/sh
# Install xagents-ray on a node. `ray up` copies this script and what it needs:
#
# wheels/       uv and xagents-ray {{version}}, which are installed by their paths and never
#               from an index, where anybody may have their names
# {{device}}.lock      the packages of the index, with their hashes
set -eu
cd "$(dirname "$0")"

# Set `wheel` to the one file of a name.
find_wheel() {
    wheel=$1
    if [ $# -ne 1 ] || [ ! -e "$wheel" ]; then
        echo "wheels/ needs one file for $1: see the first lines of on-prem.yaml." >&2
        exit 2
    fi
}

find_wheel wheels/uv-*manylinux*_"$(uname -m)".whl
rm -rf uv
python3 -m zipfile -e "$wheel" uv
set -- uv/uv-*.data/scripts/uv
chmod +x "$1"
export VIRTUAL_ENV="$HOME/xagents-ray" UV_COMPILE_BYTECODE=1
# The Python of all nodes must be the same to the patch.
"$1" venv --allow-existing --python {{python}} "$VIRTUAL_ENV"
"$1" pip install --no-build --require-hashes -r {{device}}.lock
uv=$1
find_wheel wheels/xagents_ray-{{version}}-*.whl
"$uv" pip install --no-deps --no-index "$wheel"
