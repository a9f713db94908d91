"""The keystore that is written here is read by Java's own keytool."""

import hashlib
import re
import ssl
import subprocess
from pathlib import Path

import pytest

from slackwater.runtime.jars import PASSWORD, java_options, keystore, system_certificates
from slackwater.runtime.java import find_java


@pytest.fixture(scope="module")
def certificates() -> list[bytes]:
    authorities = system_certificates()
    assert authorities, "this machine trusts no authority: nothing could be checked"
    return authorities


def test_java_reads_every_certificate_of_the_machine(certificates: list[bytes], tmp_path: Path) -> None:
    store = tmp_path / "authorities.jks"
    store.write_bytes(keystore(certificates))
    keytool = find_java().resolve().parent / "keytool"
    listing = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", PASSWORD, "-storetype", "JKS"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    fingerprints = {
        fingerprint.replace(":", "").lower()
        for fingerprint in re.findall(r"SHA-256\): ([0-9A-F:]+)", listing)
    }
    assert fingerprints == {hashlib.sha256(certificate).hexdigest() for certificate in certificates}


def test_one_flipped_byte_is_noticed_by_java(certificates: list[bytes], tmp_path: Path) -> None:
    store = tmp_path / "authorities.jks"
    written = bytearray(keystore(certificates[:2]))
    written[-30] ^= 1
    store.write_bytes(written)
    keytool = find_java().resolve().parent / "keytool"
    process = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", PASSWORD],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode != 0


def test_a_bundle_that_the_user_names_is_honoured(
    certificates: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "own.pem"
    bundle.write_text(ssl.DER_cert_to_PEM_cert(certificates[0]))
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert system_certificates() == [certificates[0]]


def test_the_options_name_file_password_and_format(tmp_path: Path) -> None:
    assert java_options(tmp_path / "a.jks") == [
        f"-Djavax.net.ssl.trustStore={tmp_path / 'a.jks'}",
        "-Djavax.net.ssl.trustStorePassword=changeit",
        "-Djavax.net.ssl.trustStoreType=JKS",
    ]
