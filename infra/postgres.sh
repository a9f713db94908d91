# Sourced by infra/airflow: a PostgreSQL cluster of its own, from the machine's binaries, that listens on a private socket alone.
# `run` holds what lasts until it is stopped; the data stays in $AIRFLOW_HOME/postgres.

postgres_bin() {
    local candidate
    for candidate in $(compgen -G '/usr/lib/postgresql/*/bin' | sort -Vr) "$(pg_config --bindir 2>/dev/null || true)" "$(dirname "$(command -v pg_ctl || echo /)")"; do
        if [ -x "$candidate/initdb" ] && [ -x "$candidate/pg_ctl" ]; then
            echo "$candidate"
            return
        fi
    done
    fail "no PostgreSQL server was found (initdb, pg_ctl)." \
        "Install it (Debian, Ubuntu: apt-get install postgresql), or name your own database in AIRFLOW__DATABASE__SQL_ALCHEMY_CONN."
}

# as_owner COMMAND...: PostgreSQL refuses to be run by root.
as_owner() {
    if [ "$(id -u)" -eq 0 ]; then
        (cd / && setpriv --reuid=postgres --regid=postgres --init-groups "$@")
    else
        "$@"
    fi
}

postgres_url() {
    [ ! -f "$run/postgres.socket" ] || echo "postgresql+psycopg2://airflow@/airflow?host=$(cat "$run/postgres.socket")"
}

postgres_up() {
    local bin data=$AIRFLOW_HOME/postgres socket
    bin=$(postgres_bin)
    socket=$(mktemp -d "${TMPDIR:-/tmp}/slackwater-postgres.XXXXXX") # short: a socket's path has 107 bytes at most
    if [ "$(id -u)" -eq 0 ]; then
        id postgres >/dev/null 2>&1 || fail "PostgreSQL refuses to be run by root, and there is no user postgres to run it as."
        mkdir -p "$data"
        chown postgres "$data" "$socket"
        as_owner test -x "$data" || fail "the user postgres cannot enter $data. Name another folder in AIRFLOW_HOME."
    fi
    echo "$socket" >"$run/postgres.socket"
    [ -f "$data/PG_VERSION" ] || as_owner "$bin/initdb" -D "$data" -A trust -U airflow -E UTF8 --locale=C >"$run/postgres-setup.log" 2>&1 ||
        fail "initdb failed: see $run/postgres-setup.log"
    as_owner "$bin/pg_ctl" -D "$data" -w -l "$data/server.log" -o "-c listen_addresses='' -c unix_socket_directories='$socket'" start \
        >>"$run/postgres-setup.log" 2>&1 </dev/null || fail "PostgreSQL did not start: see $data/server.log"
    "$bin/psql" -h "$socket" -U airflow -d postgres -Atc "SELECT 1 FROM pg_database WHERE datname = 'airflow'" | grep -q 1 ||
        "$bin/createdb" -h "$socket" -U airflow airflow
}

postgres_down() {
    [ -f "$run/postgres.socket" ] || return 0
    local bin data=$AIRFLOW_HOME/postgres
    bin=$(postgres_bin)
    if as_owner "$bin/pg_ctl" -D "$data" status >/dev/null 2>&1; then
        as_owner "$bin/pg_ctl" -D "$data" -m fast -w stop >/dev/null || return 1
    fi
    rm -rf "$(cat "$run/postgres.socket")" "$run/postgres.socket"
}
