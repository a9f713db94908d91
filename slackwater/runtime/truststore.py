"""The certificates that the machine trusts as a keystore for Java: a packaged Java trusts only its own list,
and behind a proxy that inspects TLS it could reach nothing.
"""

import hashlib
import ssl
import struct
from pathlib import Path

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
