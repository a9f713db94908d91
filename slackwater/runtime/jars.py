"""The two Delta jars that Spark needs: finds them in the cache, fetches them once, and checks their digests.

They are fetched by the Ivy that pyspark ships, with our own two small files as its only settings; nothing
else is downloaded. A packaged Java trusts only its own list of certificates, and behind a proxy that inspects
TLS it could reach nothing: it is given those that the machine trusts as a keystore.
"""

import hashlib
import os
import ssl
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from slackwater.errors import PermanentError, RetryableError, UsageError
from slackwater.runtime.java import java_home
from slackwater.runtime.settings import cache

PASSWORD = "changeit"  # protects nothing: a truststore holds public certificates; Java wants one nevertheless

# Where systems keep the bundle, for Pythons whose OpenSSL was built with another default.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/opt/homebrew/etc/ca-certificates/cert.pem",
)


def system_certificates() -> list[bytes]:
    """The authorities that this machine or SSL_CERT_FILE trusts, DER-encoded, each once; perhaps none."""
    context = ssl.create_default_context()
    if not context.get_ca_certs():  # OpenSSL's default was a folder, which it reads one certificate at a time
        bundle = next((path for path in _BUNDLES if Path(path).is_file()), None)
        if bundle is not None:
            context.load_verify_locations(bundle)
    return context.get_ca_certs(binary_form=True)


def keystore(certificates: list[bytes]) -> bytes:
    """A Java keystore (format JKS, version 2) of trusted certificates.

    Layout, big-endian: magic, version, count; for each entry: tag 2, alias, creation time in ms, "X.509",
    length, DER; then SHA-1 of password (UTF-16), "Mighty Aphrodite" and all of the above. Source:
    sun.security.provider.JavaKeyStore.
    """
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack(">I", 2) + _utf(f"authority-{number}") + struct.pack(">Q", 0)
        body += _utf("X.509") + struct.pack(">I", len(certificate)) + certificate
    return body + hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def java_options(file: Path) -> list[str]:
    """The options that make a Java trust exactly the authorities in this keystore."""
    return [
        f"-Djavax.net.ssl.trustStore={file}",
        f"-Djavax.net.ssl.trustStorePassword={PASSWORD}",
        "-Djavax.net.ssl.trustStoreType=JKS",
    ]


def _utf(text: str) -> bytes:
    utf8 = text.encode()
    return struct.pack(">H", len(utf8)) + utf8


# File -> SHA-256. The coordinates are in ivy.xml.
JAR_DIGESTS: Mapping[str, str] = {
    "delta-spark_4.2_2.13-4.4.0.jar": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
}

VARIABLE = "SLACKWATER_JARS"
_FOLDER = Path(__file__).parent


class SparkNotInstalled(PermanentError):
    """The package was installed without its extra `spark`."""


class JarMismatch(PermanentError):
    """A jar is not the one that was tested. Facts: file, expected and found (SHA-256, hexadecimal)."""


class JarsUnavailable(RetryableError):
    """The jars could not be fetched. Facts: folder (their place in the cache), said (Ivy's last lines)."""


def declared_jars() -> list[str]:
    """Where Spark takes the jars from: SLACKWATER_JARS, paths or URIs, else the cache. Fetches nothing."""
    locations = [part.strip() for part in os.environ.get(VARIABLE, "").split(",") if part.strip()]
    return locations or [str(path) for path in jar_paths()]


def jar_locations() -> list[str]:
    """As `declared_jars`, with the jars of the cache there and checked; raises as `jars`."""
    if not os.environ.get(VARIABLE):
        jars()
    return declared_jars()


def jar_paths() -> list[Path]:
    """The paths of the jars once they are fetched, for processes that only declare. Fetches nothing."""
    return [cache() / "jars" / name for name in JAR_DIGESTS]


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
    """The folder of the installed pyspark, which is not imported; raises SparkNotInstalled."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise SparkNotInstalled(
            'pyspark is not installed in this environment. Install it: pip install "slackwater[spark]".'
        )
    return Path(spec.submodule_search_locations[0])


def _check(file: Path) -> None:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    tested_digest = JAR_DIGESTS[file.name]
    if digest != tested_digest:
        raise JarMismatch(
            f"{file} is not the jar that was tested: its SHA-256 is {digest}, not {tested_digest}. Delete "
            "the file and run this again; if a fresh copy differs too, whatever serves it (a mirror, a "
            "proxy) alters it.",
            file=file,
            expected=tested_digest,
            found=digest,
        )


def _fetch(folder: Path) -> None:
    """Fetch into a folder of this process's own and rename, so that no process ever sees half a jar."""
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
        ivy_lines = _retrieve(scratch)
        for jar in JAR_DIGESTS:
            if not (scratch / jar).exists():
                raise JarsUnavailable(
                    f"The Delta jars could not be fetched into {folder}; Ivy said: "
                    f"{ivy_lines[-1] if ivy_lines else 'nothing'}. "
                    "Connect to the network and run this again; behind a mirror, name an Ivy settings file "
                    "in SLACKWATER_IVY_SETTINGS; "
                    f"or put {' and '.join(JAR_DIGESTS)} there yourself.",
                    folder=folder,
                    said=ivy_lines,
                )
            _check(scratch / jar)
        for jar in JAR_DIGESTS:
            (scratch / jar).replace(folder / jar)


def _retrieve(scratch: Path) -> list[str]:
    """Run Ivy into `scratch`, with this Java's, then the machine's certificates; returns its last lines."""
    java = java_home() / "bin" / "java"
    store = scratch / "authorities.jks"
    certificates = system_certificates()
    store.write_bytes(keystore(certificates))
    ivy_lines: list[str] = []
    for trust in ([], java_options(store)) if certificates else ([],):
        command = [
            str(java),
            *trust,
            *proxy_options(os.environ),
            *("-jar", str(_ivy()), "-warn", "-settings", str(_settings()), "-ivy", str(_FOLDER / "ivy.xml")),
            *("-cache", str(scratch / "ivy"), "-retrieve", f"{scratch}/[artifact]-[revision].[ext]"),
        ]
        ivy = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        ivy_lines = [line.strip() for line in ivy.stdout.splitlines() if line.strip()][-20:]
        if all((scratch / jar).exists() for jar in JAR_DIGESTS):
            break
    return ivy_lines


def _ivy() -> Path:
    jar = next(iter(sorted(spark_home().glob("jars/ivy-*.jar"))), None)
    if jar is None:
        raise SparkNotInstalled(
            f"{spark_home()} holds no Ivy: it is not a whole Spark. Install pyspark again."
        )
    return jar


def _settings() -> Path:
    file = os.environ.get("SLACKWATER_IVY_SETTINGS")
    if not file:
        return _FOLDER / "ivysettings.xml"
    if not Path(file).is_file():
        raise UsageError(
            f"SLACKWATER_IVY_SETTINGS names {file}, which is no file. Name an Ivy settings file, or unset "
            "it.",
            file=file,
        )
    return Path(file)


def proxy_options(environment: Mapping[str, str]) -> list[str]:
    """The proxy of HTTPS_PROXY, or else of HTTP_PROXY, as options of Java; none without a proxy."""
    address = next(
        (
            environment[name]
            for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
            if environment.get(name)
        ),
        None,
    )
    if address is None:
        return []
    proxy = urlsplit(address if "://" in address else f"http://{address}")
    if not proxy.hostname:
        raise UsageError(
            f"HTTPS_PROXY is {address!r}, which names no host. Write it as http://host:port, or unset it."
        )
    properties = {"proxyHost": proxy.hostname, "proxyPort": proxy.port or 80}
    hosts = [
        host.strip()
        for host in (environment.get("NO_PROXY") or environment.get("no_proxy") or "").split(",")
        if host.strip()
    ]
    unproxied_hosts = "|".join(f"*{host}" if host.startswith(".") else host for host in hosts)
    return [
        *(
            f"-D{protocol}.{key}={value}"
            for protocol in ("http", "https")
            for key, value in properties.items()
        ),
        *([f"-Dhttp.nonProxyHosts={unproxied_hosts}"] if unproxied_hosts else []),
    ]
