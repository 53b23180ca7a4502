#!/bin/bash
# What the deployment scripts share: messages, and the family of the distribution.

log() {
    echo "$(date -u +%FT%TZ) $*"
}

die() {
    log "ERROR: $*" >&2
    exit 1
}

family() {
    if command -v apt-get >/dev/null 2>&1; then
        echo Debian
    elif command -v dnf >/dev/null 2>&1 || command -v yum >/dev/null 2>&1; then
        echo RedHat
    else
        die "neither apt-get nor dnf nor yum is here: the Debian and RedHat families are supported"
    fi
}

enable_and_restart() {
    # SERVICE [CONTROL]: a service that was configured again must take notice. CONTROL is the service's own
    # control program: without systemd it is asked, as init scripts wait for whole seconds (Apache's: 1 to 2).
    if [ -d /run/systemd/system ]; then
        systemctl enable "$1" >/dev/null 2>&1 || true
        systemctl restart "$1" || die "the service $1 does not start"
    elif [ -n "${2:-}" ]; then
        "$2" -k graceful 2>/dev/null || "$2" -k start || die "the service $1 does not start"
    else
        service "$1" restart || die "the service $1 does not start"
    fi
}

wait_for_port() {
    # PORT SERVICE: `service` and control programs answer 0 also when the program ends at once.
    local attempt
    for attempt in $(seq 60); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
        sleep 0.5
    done
    die "$2 does not listen at port $1"
}

open_port() {
    # Only where a firewall runs; its absence is no error.
    if command -v firewall-cmd >/dev/null 2>&1 && firewall-cmd --state >/dev/null 2>&1; then
        firewall-cmd --permanent --add-port="$1/tcp" >/dev/null && firewall-cmd --reload >/dev/null
    elif command -v ufw >/dev/null 2>&1 && ufw status | grep -q active; then
        ufw allow "$1/tcp" >/dev/null
    fi
}
