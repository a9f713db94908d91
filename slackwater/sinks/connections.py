"""URLs of targets. A declaration names them; they are resolved when a sink is opened.

    env:NAME           the environment variable NAME
    airflow:CONN_ID    the Airflow connection, from AIRFLOW_CONN_<CONN_ID>, as a URI or as JSON; Airflow's
                       tasks hand it on so
    anything else      the URL itself, which then holds no password

Knows no target and imports no Airflow.
"""

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from slackwater.pipelines.errors import PipelineError
from slackwater.sinks.errors import SinkUnsuitable

ENVIRONMENT, AIRFLOW = "env:", "airflow:"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Airflow's connection types that have another name in URLs.
_SCHEMES = {"postgres": "postgresql", "mssql": "mssql+pymssql"}


def check_url(subject: str, url: object) -> None:
    """Refuse a declared `url` that can't be one, or that holds a password."""
    if not isinstance(url, str) or not url:
        raise PipelineError(subject, f"url is {url!r}; it is 'env:NAME', 'airflow:CONN_ID' or a URL")
    for prefix in (ENVIRONMENT, AIRFLOW):
        if url.startswith(prefix):
            name = url.removeprefix(prefix)
            if not name or (prefix == ENVIRONMENT and not _NAME.fullmatch(name)):
                raise PipelineError(subject, f"url is {url!r}, which names nothing; it is '{prefix}NAME'")
            return
    if "://" not in url:
        raise PipelineError(subject, f"url is {url!r}; it is 'env:NAME', 'airflow:CONN_ID' or a URL")
    if urlsplit(url).password is not None:
        raise PipelineError(
            subject,
            "url holds a password, which a declaration never does; keep it in the environment, 'env:NAME'",
        )


def variable_of(url: str) -> str | None:
    """The environment variable that a declared `url` is read from; None where it is the URL itself."""
    if url.startswith(ENVIRONMENT):
        return url.removeprefix(ENVIRONMENT)
    if url.startswith(AIRFLOW):
        return f"AIRFLOW_CONN_{url.removeprefix(AIRFLOW).upper()}"
    return None


def resolve_url(sink: str, url: str, environment: Mapping[str, str] = os.environ) -> str:
    """The URL that a declared `url` names; raises SinkUnsuitable for a variable not set or without a URL."""
    variable = variable_of(url)
    if variable is None:
        return url
    value = environment.get(variable)
    if not value:
        raise SinkUnsuitable(
            f"sink {sink}: its URL is {url}, and the environment variable {variable} is not set. Set it "
            "where this command runs.",
            sink=sink,
            variable=variable,
        )
    if url.startswith(AIRFLOW):
        value = _url_of_connection(value)
    if "://" not in value:  # its text may be a secret
        raise SinkUnsuitable(
            f"sink {sink}: the environment variable {variable} holds no URL, such as "
            "postgresql://host/database.",
            sink=sink,
            variable=variable,
        )
    return value


def _url_of_connection(value: str) -> str:
    """The URL of an Airflow connection in one of the two forms that Airflow reads from the environment."""
    if value.lstrip().startswith("{"):
        try:
            return _url_of_fields(json.loads(value))
        except ValueError:
            return ""
    scheme, separator, address = value.partition("://")
    return _url_of_file(address) if scheme == "sqlite" else f"{_scheme(scheme)}{separator}{address}"


def _url_of_fields(fields: Mapping[str, Any]) -> str:
    login, password = fields.get("login"), fields.get("password")
    user = "" if login is None and password is None else quote(login or "", safe="")
    if password is not None:
        user += f":{quote(password, safe='')}"
    host = fields.get("host") or ""
    scheme = _scheme(str(fields.get("conn_type") or ""))
    if scheme == "sqlite":
        return _url_of_file(host or str(fields.get("schema") or ""))
    port = f":{fields['port']}" if fields.get("port") else ""
    extra = fields.get("extra") or {}
    options = json.loads(extra) if isinstance(extra, str) else extra
    query = urlencode({name: item for name, item in options.items() if isinstance(item, str)})
    path = quote(str(fields.get("schema") or ""), safe="")
    return f"{scheme}://{user}{'@' if user else ''}{host}{port}/{path}{'?' if query else ''}{query}"


def _url_of_file(path: str) -> str:
    """The URL of a file, which Airflow keeps as the host or as the schema of a connection."""
    return f"sqlite:////{unquote(path).lstrip('/')}"


def _scheme(connection_type: str) -> str:
    return _SCHEMES.get(connection_type, connection_type)
