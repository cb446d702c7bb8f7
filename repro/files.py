"""Writing files so that nothing on disk is ever lost or half-written, and naming their content."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from repro.errors import ReproError


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content` in one step: temporary file beside it, fsync, rename.

    A full disk or a kill leaves the earlier file as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: the same value always gives the same text.

    Raises ValueError for NaN and infinities, which JSON cannot hold.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )


def digest(value: Any) -> str:
    """SHA-256 (64 hex digits) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def sha256(path: Path) -> str:
    """SHA-256 (64 hex digits) of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises ReproError, naming file and line, where it is none."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is built
    try:
        return yaml.load(path.read_text(), loader)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        says = " ".join(str(error).split())
        raise ReproError(f"{path.name} is not readable as YAML: {says}.") from error
