"""Compiles the stand-ins for the vendors' libraries, and lays them out as an installation does."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
# The structures in amd_smi.c are those of this version.
AMD_SMI_VERSION = "7.0"

_FLAGS = ["-D_GNU_SOURCE", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-shared", "-fPIC"]
_FLAGS += ["-fvisibility=hidden"]


def why_no_compiler() -> str:
    """Why nothing can be compiled here, or nothing."""
    return "" if shutil.which("cc") else "there is no C compiler here (cc)"


def why_no_amd_smi() -> str:
    """Why the stand-in of AMD SMI cannot be used, or nothing."""
    try:
        version = importlib.metadata.version("amdsmi")
    except importlib.metadata.PackageNotFoundError:
        return "the package amdsmi is not installed"
    if not version.startswith(f"{AMD_SMI_VERSION}."):
        return f"the stand-in is of amdsmi {AMD_SMI_VERSION}, and {version} is installed"
    return why_no_compiler()


def compile_nvml(folder: Path) -> Path:
    """libnvidia-ml.so.1 in that folder, which goes into LD_LIBRARY_PATH."""
    name = "libnvidia-ml.so.1"
    _compile(folder / name, [FOLDER / "nvml.c", f"-Wl,-soname,{name}"])
    return folder


def compile_rocm(folder: Path) -> Path:
    """A ROCm installation in that folder, which goes into ROCM_PATH: the library, and the binding beside it."""
    binding = binding_folder()
    text = (binding / "amdsmi_wrapper.py").read_text("utf-8")
    functions = sorted(set(re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", text)))
    rest = folder / "rest.c"
    rest.parent.mkdir(parents=True, exist_ok=True)
    weak = '__attribute__((weak, visibility("default"))) int {}(void) {{ return 2; }}\n'
    rest.write_text("".join(weak.format(function) for function in functions))
    _compile(folder / "lib/libamd_smi.so", [FOLDER / "amd_smi.c", rest])
    shutil.copytree(binding, folder / "share/amd_smi/amdsmi", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def why_no_cuda() -> str:
    """Why the stand-in of CUDA's driver cannot be used, or nothing."""
    return _why_no_package("cuda-bindings") or why_no_compiler()


def why_no_hip() -> str:
    """Why the stand-in of HIP's runtime cannot be used, or nothing."""
    return _why_no_package("hip-python") or why_no_compiler()


def compile_cuda(folder: Path) -> Path:
    """libcuda.so.1 in that folder, which goes into LD_LIBRARY_PATH."""
    name = "libcuda.so.1"
    _compile(folder / name, [FOLDER / "cuda_driver.c", f"-Wl,-soname,{name}", "-ldl"])
    return folder


def compile_hip(folder: Path) -> Path:
    """libamdhip64.so in an installation of ROCm, which goes into ROCM_PATH."""
    name = "libamdhip64.so"
    _compile(folder / "lib" / name, [FOLDER / "hip.c", f"-Wl,-soname,{name}"])
    return folder


def _why_no_package(name: str) -> str:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"the package {name} is not installed: it has no wheel for this Python or this machine"
    return ""


def binding_folder() -> Path:
    """Where the installed binding of AMD SMI lies. It is not imported: without its library it prints and fails."""
    return Path(importlib.util.find_spec("amdsmi").origin).parent


def _compile(target: Path, sources: list[Path | str]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", *_FLAGS, "-o", target, *sources], check=True, stdin=subprocess.DEVNULL)
