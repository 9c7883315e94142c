package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unprivileged is the user ID for a daemon without capabilities.
const unprivileged = 65534

// isolated returns process attributes that put a process into the sandbox's namespaces.
func isolated(sandbox string) *syscall.SysProcAttr {
	switch sandbox {
	case "pod":
		return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	case "userns":
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}}
		return &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, UidMappings: ids, GidMappings: ids,
			Credential: &syscall.Credential{NoSetGroups: true}, // root inside the namespace, an unprivileged user outside
		}
	}
	return &syscall.SysProcAttr{}
}

// launch runs in the sandbox's namespaces. It drops the privileges that the sandbox doesn't have, and executes the
// command with execve(2). It returns only if execve fails.
func launch(sandbox string, command []string) error {
	runtime.LockOSThread()
	switch sandbox {
	case "pod":
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("loopback: %w", err)
		}
		if err := dropPrivileges(); err != nil {
			return err
		}
	case "userns":
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("loopback: %w", err)
		}
	case "deaf":
		if err := refuse(unix.SYS_SOCKET, unix.AF_NETLINK, unix.EAFNOSUPPORT); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	case "blind":
		if err := dropPrivileges(); err != nil {
			return err
		}
		if err := refuse(unix.SYS_INOTIFY_INIT1, unix.IN_CLOEXEC|unix.IN_NONBLOCK, unix.EMFILE); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	default:
		return fmt.Errorf("sandbox: found %q, want pod, userns, deaf or blind", sandbox)
	}
	return syscall.Exec(command[0], command, os.Environ())
}

// dropPrivileges switches to the unprivileged user, which drops all capabilities.
func dropPrivileges() error {
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(unprivileged); err != nil {
		return err
	}
	return syscall.Setuid(unprivileged)
}

// refuse makes a system call with the given first argument fail, in this thread and after execve(2). Some sandboxes'
// seccomp filters do the same.
func refuse(call, argument uint32, errno unix.Errno) error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // low half of args[0], little-endian
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: argument, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
}
