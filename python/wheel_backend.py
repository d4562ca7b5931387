"""What 'pip install .' calls (PEP 517): CMake builds and installs into a folder, of which a wheel is made: the module with the
shared library beside it, the command, its man page and, where emcc and the source of jansson are there, the engine of its pages."""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
VERSION = re.search(r"project\(phaze VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
TAG = "cp39-abi3-" + re.sub("[-.]", "_", sysconfig.get_platform())
METADATA = f"""Metadata-Version: 2.1
Name: phaze
Version: {VERSION}
Summary: Which accelerator chip should be built, and how should a cluster of them train these models?
License: MIT
Requires-Python: >=3.9
Requires-Dist: cffi
Provides-Extra: plot
Requires-Dist: matplotlib; extra == "plot"
"""


def _install(build: Path, prefix: Path) -> None:
    """The tree that 'cmake --install' makes, of this build folder."""
    targets = ["phaze_command", "phaze_shared", "man", "phaze_python"]
    if shutil.which("emcc") and (SOURCE / "build/jansson/src/jansson.h").exists():
        targets.append("wasm")
    subprocess.run(["cmake", "-S", SOURCE, "-B", build, *(["-GNinja"] if shutil.which("ninja") else []), "-DPHAZE_TESTS=OFF",
                    "-DPHAZE_MPI=OFF", f"-DPython3_EXECUTABLE={sys.executable}"], check=True)
    subprocess.run(["cmake", "--build", build, "--parallel", str(os.cpu_count()), "--target", *targets], check=True)
    subprocess.run(["cmake", "--install", build, "--prefix", prefix, "--strip"], check=True)


def _members(prefix: Path):
    """Names in the wheel and their files."""
    module = next(prefix.glob("**/_phaze.abi3.so")).parent
    data = f"phaze-{VERSION}.data"
    for file in sorted(module.iterdir()):
        yield f"phaze/{file.name}", file
    soname = "libphaze.so." + VERSION.rpartition(".")[0]
    yield f"phaze/{soname}", next(prefix.glob(f"**/{soname}"))
    yield f"{data}/scripts/phaze", prefix / "bin/phaze"
    for file in sorted((prefix / "share").glob("**/*")):
        if file.is_file():
            yield f"{data}/data/{file.relative_to(prefix)}", file


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """--config-settings=build=FOLDER: a build folder of one's own, so that what it holds is not compiled anew."""
    build = SOURCE / (config_settings or {}).get("build", "build/pip")
    name, info, record = f"phaze-{VERSION}-{TAG}.whl", f"phaze-{VERSION}.dist-info", ""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        prefix = Path(folder)
        _install(build, prefix)
        (prefix / "METADATA").write_text(METADATA)
        (prefix / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: phaze\nRoot-Is-Purelib: false\nTag: {TAG}\n")
        for member, file in [*_members(prefix), *((f"{info}/{key}", prefix / key) for key in ("METADATA", "WHEEL"))]:
            content = file.read_bytes()
            wheel.write(file, member)  # with its mode, which writestr has not
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{member},sha256={digest},{len(content)}\n"
        wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return name


class UnsupportedOperation(Exception):
    pass


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("scripts/build-packages --source makes the source as one file")
