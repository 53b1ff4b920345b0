#!/bin/sh
# Make the environments of the peers, DIR/sb3, DIR/sbx, DIR/rlox, DIR/contrib: benchmarks/peers.sh DIR
# Then: python -m benchmarks throughput --vs sb3=DIR/sb3/bin/python --vs sbx=DIR/sbx/bin/python
# PYTHON names the interpreter that they are made with; python3 if it is not set.
# TORCH_INDEX names PyTorch's index, for one that trains on a GPU; that of CPUs if it is not set.
set -eu
[ $# = 1 ] || { echo "usage: benchmarks/peers.sh DIR" >&2; exit 2; }
python=${PYTHON:-python3}
index=${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}
common='stable-baselines3>=2.4 gymnasium[classic-control,box2d]>=1.1 ale-py>=0.11 opencv-python-headless>=4.10'

make() { # PEER MODULE PACKAGE…
    peer=$1 module=$2 && shift 2
    if command -v uv >/dev/null; then
        uv venv --quiet --python "$python" "$dir/$peer"
        install="uv pip install --quiet --python $dir/$peer/bin/python"
    else
        "$python" -m venv "$dir/$peer"
        install="$dir/$peer/bin/python -m pip install --quiet"
    fi
    # PyTorch's own index has a build for CPUs; PyPI's brings gigabytes of CUDA, which
    # trains as fast on a CPU.
    $install --index-url "$index" torch 2>/dev/null ||
        echo "$peer: $index can't be reached; PyTorch comes from PyPI, with CUDA." >&2
    $install "$@"
    "$dir/$peer/bin/python" -c "import $module, torch; print(torch.__version__)"
}

mkdir -p "$1"
dir=$(cd "$1" && pwd)
# shellcheck disable=SC2086
make sb3 stable_baselines3 $common
# shellcheck disable=SC2086
make sbx sbx $common sbx-rl
make rlox rlox rlox 'gymnasium[classic-control]>=1.1'
# shellcheck disable=SC2086
make contrib sb3_contrib $common 'sb3-contrib>=2.4'
