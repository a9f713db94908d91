"""The two Delta jars that Spark needs: where they are, how they are fetched, and that they are the right
ones.

Fetched once by the Ivy that pyspark ships, which follows no setting but our own two small files; nothing else
is downloaded.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from slackwater.jobs.errors import PermanentError, RetryableError, UsageError
from slackwater.jobs.runtime import truststore
from slackwater.jobs.runtime.cache import cache
from slackwater.jobs.runtime.java import java_home

# File -> SHA-256. The coordinates stand in ivy.xml.
PINNED: Mapping[str, str] = {
    "delta-spark_4.2_2.13-4.4.0.jar": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
}

_HERE = Path(__file__).parent


class SparkNotInstalled(PermanentError):
    """The package was installed without its extra `spark`."""


class JarMismatch(PermanentError):
    """A jar is not the one that was tested. Facts: file, expected and found (SHA-256, hexadecimal)."""


class JarsUnavailable(RetryableError):
    """The jars could not be fetched. Facts: folder (where they would lie), said (Ivy's last lines)."""


def jar_paths() -> list[Path]:
    """Where the jars lie once they are fetched. Fetches nothing: for processes that only declare, such as a
    DAG file.
    """
    return [cache() / "jars" / name for name in PINNED]


def jars() -> list[Path]:
    """The jars on this machine, digests checked; fetches them when one is missing.

    Called by each session that starts its own JVM, and by set-up. Any number of processes may call it at
    once. Raises SparkNotInstalled, JavaNotFound, JarMismatch, JarsUnavailable; UsageError for bad settings of
    the user.
    """
    files = jar_paths()
    if not all(file.exists() for file in files):
        _fetch(files[0].parent)
    for file in files:
        _check(file)
    return files


def spark_home() -> Path:
    """The folder of the installed pyspark, which is a whole Spark. Does not import it. Raises
    SparkNotInstalled.
    """
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise SparkNotInstalled(
            'pyspark is not installed in this environment. Install it: pip install "slackwater[spark]".'
        )
    return Path(spec.submodule_search_locations[0])


def _check(file: Path) -> None:
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    expected = PINNED[file.name]
    if found != expected:
        raise JarMismatch(
            f"{file} is not the jar that was tested: its SHA-256 is {found}, not {expected}. Delete the file "
            "and run this again; "
            "if a fresh copy differs too, whatever serves it (a mirror, a proxy) alters it.",
            file=file,
            expected=expected,
            found=found,
        )


def _fetch(folder: Path) -> None:
    """Fetches into a folder of this process's own and renames file by file, so that nobody ever sees half a
    jar.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = tempfile.TemporaryDirectory(prefix="fetch-", dir=folder.parent)
    except OSError as error:
        raise UsageError(
            f"The cache folder {folder.parent} cannot be written ({error.strerror}). Name another one in "
            "SLACKWATER_CACHE.",
            folder=folder,
        ) from error
    with draft as name:
        scratch = Path(name)
        said = _retrieve(scratch)
        for jar in PINNED:
            if not (scratch / jar).exists():
                raise JarsUnavailable(
                    f"The Delta jars could not be fetched into {folder}; Ivy said: "
                    f"{said[-1] if said else 'nothing'}. "
                    "Connect to the network and run this again; behind a mirror, name an Ivy settings file "
                    "in SLACKWATER_IVY_SETTINGS; "
                    f"or put {' and '.join(PINNED)} there yourself.",
                    folder=folder,
                    said=said,
                )
            _check(scratch / jar)
        for jar in PINNED:
            (scratch / jar).replace(folder / jar)


def _retrieve(scratch: Path) -> list[str]:
    """Runs Ivy until the jars lie in `scratch`; gives its last lines. First as this Java trusts, then as the
    machine trusts.
    """
    java = java_home() / "bin" / "java"
    store = scratch / "authorities.jks"
    certificates = truststore.system_certificates()
    store.write_bytes(truststore.keystore(certificates))
    said: list[str] = []
    for trust in ([], truststore.java_options(store)) if certificates else ([],):
        command = [
            str(java),
            *trust,
            *proxy_options(os.environ),
            *("-jar", str(_ivy()), "-warn", "-settings", str(_settings()), "-ivy", str(_HERE / "ivy.xml")),
            *("-cache", str(scratch / "ivy"), "-retrieve", f"{scratch}/[artifact]-[revision].[ext]"),
        ]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        said = [line.strip() for line in done.stdout.splitlines() if line.strip()][-20:]
        if all((scratch / jar).exists() for jar in PINNED):
            break
    return said


def _ivy() -> Path:
    jar = next(iter(sorted(spark_home().glob("jars/ivy-*.jar"))), None)
    if jar is None:
        raise SparkNotInstalled(
            f"{spark_home()} holds no Ivy: it is not a whole Spark. Install pyspark again."
        )
    return jar


def _settings() -> Path:
    own = os.environ.get("SLACKWATER_IVY_SETTINGS")
    if not own:
        return _HERE / "ivysettings.xml"
    if not Path(own).is_file():
        raise UsageError(
            f"SLACKWATER_IVY_SETTINGS names {own}, which is no file. Name an Ivy settings file, or unset it.",
            file=own,
        )
    return Path(own)


def proxy_options(environment: Mapping[str, str]) -> list[str]:
    """The proxy of HTTPS_PROXY, or else HTTP_PROXY, as Java wants it said; Java reads neither variable. No
    variable: no option.
    """
    named = next(
        (
            environment[name]
            for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
            if environment.get(name)
        ),
        None,
    )
    if named is None:
        return []
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if not proxy.hostname:
        raise UsageError(
            f"HTTPS_PROXY is {named!r}, which names no host. Write it as http://host:port, or unset it."
        )
    address = {"proxyHost": proxy.hostname, "proxyPort": proxy.port or 80}
    hosts = [
        host.strip()
        for host in (environment.get("NO_PROXY") or environment.get("no_proxy") or "").split(",")
        if host.strip()
    ]
    spared = "|".join(f"*{host}" if host.startswith(".") else host for host in hosts)
    return [
        *(f"-D{protocol}.{key}={value}" for protocol in ("http", "https") for key, value in address.items()),
        *([f"-Dhttp.nonProxyHosts={spared}"] if spared else []),
    ]
