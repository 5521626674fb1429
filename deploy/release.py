"""Make the files of a release of the checked-out commit: `make release`.

    python deploy/release.py [--into dist] [--repository https://…] [--image-builder docker]

| file in `dist/` | what it is | |---|---| | `packetboat_client-V-py3-none-any.whl`,
`packetboat_server-V-py3-none-any.whl` | the wheels | | `packetboat-V-run.lock`,
`-opentelemetry.lock`, `-exports.lock` | libraries, by version and hash | | `packetboat-V.cdx.json`
| the bill of materials, CycloneDX 1.6: all that the locks bring | | `packetboat-V.image.tar` | the
image, where a builder of images is here | | `SHA256SUMS` | of all these files |

Two runs at the same commit give the same bytes, except for the image: only committed files go in,
and the only time in it is that of the commit. Libraries are those that are installed here. The
wheels name the repository of `--repository`, or none.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lock

ROOT = Path(__file__).resolve().parents[1]
LAYERS = {"run": "required", "opentelemetry": "optional", "exports": "optional"}
"""Layers of libraries, and their scope in CycloneDX."""
SUMS = "SHA256SUMS"
_LINE = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)", re.M)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def committed(place: Path) -> int:
    """Unpack the commit into a new folder, with the same modes everywhere; return its time."""
    place.mkdir()
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]
    archive = subprocess.run(
        [*git, "-c", "tar.umask=0022", "archive", "--format=tar", "HEAD"],
        check=True,
        capture_output=True,
    )
    unpack = ["tar", "--extract", "--preserve-permissions", "--directory", str(place)]
    subprocess.run(unpack, input=archive.stdout, check=True)
    shown = subprocess.run(
        [*git, "log", "-1", "--format=%ct"], check=True, capture_output=True, text=True
    )
    return int(shown.stdout)


def build_wheel(project: Path, into: Path, epoch_s: int) -> Path:
    """Build a wheel with the installed setuptools; the times of all files in it are `epoch_s`."""
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    with tempfile.TemporaryDirectory() as place:
        # Files that the build makes itself have the mode that the umask leaves.
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", *options, "-w", place, str(project)],
            check=True,
            env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch_s)},
            umask=0o022,
        )
        (built,) = Path(place).glob("*.whl")
        into.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(built, into / built.name))


def name_repository(tree: Path, url: str) -> None:
    """Write the repository into both projects, whose wheels then name it."""
    if not re.fullmatch(r"https://[^\s\"\\]+", url):
        raise ValueError(f"{url!r} is no https:// address of a repository")
    for project in (tree / "sdk/python", tree):
        with (project / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(f'\n[project.urls]\nRepository = "{url}"\n')


def version_of(tree: Path) -> str:
    """Return the version, which both distributions have."""
    text = (tree / "pyproject.toml").read_text(encoding="utf-8")
    version: str = tomllib.loads(text)["project"]["version"]
    return version


def bill_of_materials(tree: Path, epoch_s: int) -> str:
    """Return the bill of materials: CycloneDX, as JSON."""
    version = version_of(tree)
    ours = {
        name: {
            "type": "application" if name == "packetboat-server" else "library",
            "bom-ref": f"{name}@{version}",
            "name": name,
            "version": version,
            "licenses": [{"license": {"id": "Apache-2.0"}}],
        }
        for name in sorted(lock.OURS)
    }
    components = [ours["packetboat-client"], *_components(tree)]
    refs: dict[str, list[str]] = {}
    for component in (ours["packetboat-server"], *components):
        refs.setdefault(component["name"], []).append(component["bom-ref"])
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch_s, UTC).isoformat(),
            "component": ours["packetboat-server"],
        },
        "components": components,
        "dependencies": [
            {"ref": ref, "dependsOn": _needs(name, refs)} for name in refs for ref in refs[name]
        ],
    }
    digest = hashlib.sha256(json.dumps(bill).encode()).hexdigest()
    bill["serialNumber"] = uuid.UUID(hex=digest[:32], version=4).urn
    return json.dumps(bill, indent=2) + "\n"


def _components(tree: Path) -> Iterator[dict[str, Any]]:
    for layer, scope in LAYERS.items():
        text = (tree / "requirements" / f"{layer}.lock").read_text(encoding="utf-8")
        for name, said in lock.packages(text).items():
            # A package may have several versions, for different Pythons, each with its own hashes.
            for part in re.split(r"^(?=\S)", said, flags=re.M)[1:]:
                match = _LINE.match(part)
                assert match is not None, part
                yield {
                    "type": "library",
                    "bom-ref": f"{name}@{match['version']}",
                    "name": name,
                    "version": match["version"],
                    "scope": scope,
                    "purl": f"pkg:pypi/{name}@{match['version']}",
                    "hashes": [{"alg": "SHA-256", "content": each} for each in _HASH.findall(part)],
                }


def _needs(name: str, refs: dict[str, list[str]]) -> list[str]:
    extras = lock.EXTRAS["exports"] if name == "packetboat-server" else frozenset[str]()
    wanted = {
        lock.normalized(re.split(r"[^A-Za-z0-9._-]", line)[0])
        for line in lock.requirements_of(name, extras)
    }
    return sorted(ref for each in wanted for ref in refs.get(each, ()))


def works(builder: str) -> bool:
    """Return whether a builder can build: Docker's program may be here without its daemon."""
    try:
        return subprocess.run([builder, "info"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def build_image(tree: Path, builder: str, file: Path) -> None:
    """Build the image as `make image` does, and save it in a file."""
    version = version_of(tree)
    subprocess.run(["make", "-C", str(tree), "image", f"IMAGE_BUILDER={builder}"], check=True)
    file.unlink(missing_ok=True)
    name = f"packetboat:{version}"
    if Path(builder).name == "buildah":
        command = [builder, "push", name, f"docker-archive:{file}:{name}"]
    else:
        command = [builder, "save", "-o", str(file), name]
    subprocess.run(command, check=True)


def release(into: Path, repository: str, image_builder: str) -> list[Path]:
    """Make all files of a release; return them in the order of their names."""
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        epoch_s = committed(tree)
        if repository:
            name_repository(tree, repository)
        name = f"packetboat-{version_of(tree)}"
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        files = [build_wheel(project, into, epoch_s) for project in (tree / "sdk/python", tree)]
        for layer in LAYERS:
            copied = shutil.copyfile(
                tree / "requirements" / f"{layer}.lock", into / f"{name}-{layer}.lock"
            )
            files.append(copied)
        bill = into / f"{name}.cdx.json"
        bill.write_text(bill_of_materials(tree, epoch_s), encoding="utf-8")
        files.append(bill)
        _write_sums(into, files)
        if image_builder:
            image = into / f"{name}.image.tar"
            build_image(tree, image_builder, image)
            files.append(image)
            _write_sums(into, files)
    return [*sorted(files), into / SUMS]


def _write_sums(into: Path, files: list[Path]) -> None:
    sums = [f"{_digest(file)}  {file.name}\n" for file in sorted(files)]
    (into / SUMS).write_text("".join(sums), encoding="ascii")


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="made anew")
    parser.add_argument("--repository", default="", help="where the source is: https://…")
    parser.add_argument("--image-builder", default="", help="docker, podman or buildah")
    given = parser.parse_args()
    if not given.repository:
        sys.stderr.write("no REPOSITORY=https://… is named: the wheels say no address\n")
    builder = given.image_builder
    if not builder:
        sys.stderr.write("no docker, podman or buildah is here: no image is built\n")
    elif not works(builder):
        sys.stderr.write(f"`{builder} info` fails, so it can't build: no image is built\n")
        builder = ""
    for file in release(given.into, given.repository, builder):
        sys.stdout.write(f"{file.stat().st_size:>12,}  {file}\n")


if __name__ == "__main__":
    main()
