# What `image` and `run` both know of the machine; sourced.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/evictd-vm
MEMORY=1024 # MiB
host_release=$(. /etc/os-release && echo "$VERSION_CODENAME")
release=${EVICTD_VM_RELEASE:-$host_release} # of Debian, in the machine
declare -A DISKS=([root]=3072 [payload]=128 [swap]=512 [nodefs]=256 [imagefs]=256 [containerfs]=256) # MiB
declare -A SLOW=() # options of a drive that make it as slow as a real disk may be
disks=(root payload swap nodefs imagefs containerfs)                                            # in the order of their names vda...

# install_missing: "COMMAND PACKAGE" a line on standard input; installs the packages of those that are not there.
install_missing() {
    local packages=() tool package
    while read -r tool package; do
        command -v "$tool" >/dev/null || packages+=("$package")
    done
    [[ ${packages[*]} ]] || return 0
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "${packages[@]}" >&2
}

OF_ANY_AGE='Acquire::Check-Valid-Until "false";' # of sid: a mirror may be some weeks old
# of_release COMMAND...: an apt command as the machine's release answers it. What apt knows of another release than this machine's
# is kept in the cache, and comes from the same mirror.
of_release() {
    local apt=$cache/apt-$release
    if [[ $release != "$host_release" ]]; then
        mkdir -p "$apt"/{lists,archives}/partial
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $release main" >"$apt/sources.list"
        printf '%s\n' "Dir::State::lists \"$apt/lists\";" "Dir::Cache \"$apt\";" "Dir::Etc::sourcelist \"$apt/sources.list\";" \
            'Dir::Etc::sourceparts "-";' 'APT::Sandbox::User "root";' "$OF_ANY_AGE" >"$apt/apt.conf"
        local -x APT_CONFIG=$apt/apt.conf
    fi
    "$@"
}
mirror() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $host_release" | head -n 1; }

# start_machine DIRECTORY PARAMETERS FURTHER_OPTIONS...: becomes qemu with the disks of $image and the payload in DIRECTORY. The
# guest's console is a file there; its agent talks on the pipes agent.in and agent.out. The options must be the same for a
# machine that is saved and for one that goes on from there.
start_machine() {
    local work=$1 parameters=$2 options=() disk file
    shift 2
    for disk in "${disks[@]}"; do
        file=$image/$disk
        [[ $disk != payload ]] || file=$work/payload
        options+=(-drive "if=none,id=$disk,format=raw,file=$file,cache=unsafe${SLOW[$disk]:+,${SLOW[$disk]}}" -device "virtio-blk-pci,drive=$disk,serial=$disk")
    done
    exec qemu-system-x86_64 -accel "${EVICTD_VM_ACCEL:-tcg}" -cpu max -smp 1 -m "$MEMORY" -nodefaults -display none \
        -kernel "$image/kernel" -initrd "$image/initramfs" \
        -append "console=ttyS0 loglevel=5 psi=1 tsc=reliable panic=5 systemd.show_status=0 rd.udev.log_level=3 $parameters" \
        -serial "file:$work/console" -device virtio-rng-pci -device virtio-serial-pci \
        -chardev "pipe,id=agent,path=$work/agent" -device virtserialport,chardev=agent,name=agent \
        "${options[@]}" "$@"
}
