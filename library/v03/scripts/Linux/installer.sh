#!/bin/bash
# install PACKAGE...: installs what is not installed yet. Needs common.sh.

is_installed() {
    case "$(family)" in
        Debian) dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed' ;;
        RedHat) rpm -q "$1" >/dev/null 2>&1 ;;
    esac
}

install() {
    local missing=()
    local package
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    log "installing ${missing[*]}"
    case "$(family)" in
        Debian)
            export DEBIAN_FRONTEND=noninteractive
            apt-get install -y -q "${missing[@]}" >/dev/null 2>&1 && return 0
            apt-get update -q >/dev/null || die "the package lists cannot be read"
            apt-get install -y -q "${missing[@]}" >/dev/null || die "cannot install ${missing[*]}"
            ;;
        RedHat)
            local manager=yum
            command -v dnf >/dev/null 2>&1 && manager=dnf
            "$manager" install -y -q "${missing[@]}" >/dev/null || die "cannot install ${missing[*]}"
            ;;
    esac
}
