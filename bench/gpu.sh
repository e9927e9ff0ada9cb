#!/usr/bin/env bash
# Copies for real, on a machine with an NVIDIA GPU and its driver, in less than 10 minutes: to each GPU, from it and inside it,
# and between the first two, with the data compared; beside them what PyTorch measures, where a Python here has it, and what
# NVML tells. Prints what bench/RESULTS.md has of it. Status 1: data were wrong, a step failed, or PyTorch measures more than
# 5 % more or less. Status 2: there is nothing to measure with.
#
# usage: bash bench/gpu.sh [--size MIB] [--gpus N]
#
# In the environment: WHEELS, a folder with wheels of what hostdoctor[cuda] needs, for machines without a network;
# TORCH_PYTHON, a Python that has PyTorch (usual: this one, or python3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# What hangs here must not hang whoever waits for it.
[ -n "${GPU_WATCHED:-}" ] || GPU_WATCHED=1 exec timeout --kill-after=5 580 bash bench/gpu.sh "$@"
exec </dev/null

can_measure() { "$1" -c 'import msgspec, pynvml, cuda.bindings.driver' 2>/dev/null; }
can_compare() { "$1" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1; }

python=
for candidate in .venv/bin/python build/gpu-venv/bin/python python3; do
  if can_measure "$candidate"; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo 'installing hostdoctor[cuda] into build/gpu-venv' >&2
  python3 -m venv build/gpu-venv
  python=build/gpu-venv/bin/python
  "$python" -m pip install --quiet --disable-pip-version-check ${WHEELS:+--no-index --find-links "$WHEELS"} '.[cuda]' >&2
  can_measure "$python" || { echo 'hostdoctor[cuda] cannot be used with this Python' >&2; exit 2; }
fi

torch=
for candidate in ${TORCH_PYTHON:+"$TORCH_PYTHON"} "$python" python3; do
  if can_compare "$candidate"; then
    torch=$candidate
    break
  fi
done

exec env PYTHONPATH=. "$python" bench/gpu.py ${torch:+--torch "$torch"} "$@"
