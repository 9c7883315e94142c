package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// The parts that faults affect: the cluster's parts, and programs in pods, which the kubelet restarts.
var (
	clusterParts = []string{"kubelet", "containerd", "kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager"}
	programs     = map[string]string{"daemon": "accelerator-dev", "driver": "accelerator-dra", "operator": "accelerator-ope"} // names as in /proc/PID/comm
	// "plugin" stands for the program that serves the current API. It is listed four times, so that it is chosen more
	// often than the other parts.
	parts = append(slices.Clone(clusterParts), "operator", "plugin", "plugin", "plugin", "plugin")
)

var faultOperations = map[string]operation{
	// A part is killed, and restarted after a few seconds.
	"kill": {weight: 8, disturbs: true, choose: anyPart(5), run: func(a act, part string, args []string) {
		defer a.free(part)
		if program := programs[part]; program != "" {
			old := cluster.Programs(program)
			a.check(send(old, syscall.SIGKILL))
			await(a.scene, part+" again", func() (bool, error) {
				return slices.ContainsFunc(cluster.Programs(program), func(pid int) bool { return !slices.Contains(old, pid) }), nil
			}, true)
			a.pause("2") // until the probe has updated the pod's readiness
			if part != "operator" {
				a.rolledToNaming()
			}
			return
		}
		a.Kill(part)
		a.pause(args[0])
		a.check(a.Start(a.base.ctx, part))
	}},
	// A part is paused for a few seconds.
	"stop": {weight: 6, disturbs: true, choose: anyPart(12), run: func(a act, part string, args []string) {
		defer a.free(part)
		if program := programs[part]; program != "" {
			pids := cluster.Programs(program)
			a.check(send(pids, syscall.SIGSTOP))
			defer func() { a.check(send(pids, syscall.SIGCONT)) }()
			a.pause(args[0])
			return
		}
		a.check(a.Signal(part, syscall.SIGSTOP))
		defer func() { a.check(a.Signal(part, syscall.SIGCONT)) }()
		a.pause(args[0])
	}},
	// The kubelet starts while the API server is paused, so it doesn't know about any pods until the API server
	// resumes. Usually a pod holds a device under its old name at that point, and only the daemon knows that the device
	// isn't free.
	"blind": {weight: 10, disturbs: true, choose: func(s *soaking, random *rand.Rand) (string, []string, bool) {
		if !s.formerNameHeld() && random.IntN(6) > 0 || !s.take("kube-apiserver") {
			return "", nil, false
		}
		if !s.take("kubelet") {
			s.free("kube-apiserver")
			return "", nil, false
		}
		return "kubelet", []string{seconds(random, 20)}, true
	}, run: func(a act, _ string, args []string) {
		defer a.free("kubelet")
		defer a.free("kube-apiserver")
		a.check(a.Signal("kube-apiserver", syscall.SIGSTOP))
		defer func() { a.check(a.Signal("kube-apiserver", syscall.SIGCONT)) }()
		a.Kill("kubelet")
		a.check(a.StartKubelet())
		a.pause(args[0])
	}},
	"disk": {weight: 2, disturbs: true, choose: func(s *soaking, random *rand.Rand) (string, []string, bool) {
		// The state directory can't become read-only, because a file in it is open for writing.
		disk := [][2]string{{state, "full"}, {specs, "full"}, {specs, "read-only"}}[random.IntN(3)]
		return disk[0], []string{disk[1], seconds(random, 10)}, s.take(disk[0])
	}, run: func(a act, target string, args []string) {
		defer a.free(target)
		if args[0] == "read-only" {
			a.check(remount(target, syscall.MS_RDONLY))
			defer func() { a.check(remount(target, 0)) }()
		} else {
			defer os.Remove(filepath.Join(target, fillerName))
			a.check(fill(filepath.Join(target, fillerName)))
		}
		a.pause(args[1])
	}},
	// The machine's wall clock jumps, and later jumps back.
	"clock": {weight: 1, disturbs: true, choose: func(s *soaking, random *rand.Rand) (string, []string, bool) {
		return "clock", []string{strconv.Itoa(random.IntN(1200) - 600), seconds(random, 6)}, s.take("clock")
	}, run: func(a act, _ string, args []string) {
		defer a.free("clock")
		jump := time.Duration(must(strconv.Atoi(args[0]))) * time.Second
		began := time.Now()
		a.check(setClock(began.Add(jump)))
		defer func() { a.check(setClock(began.Add(time.Since(began)))) }() // according to the monotonic clock
		a.pause(args[1])
	}},
}

// anyPart returns a function that chooses a part that doesn't have a fault yet, and how many seconds the new fault
// lasts.
func anyPart(mean float64) func(*soaking, *rand.Rand) (string, []string, bool) {
	return func(s *soaking, random *rand.Rand) (string, []string, bool) {
		part := parts[random.IntN(len(parts))]
		if part == "plugin" {
			part = map[string]string{"dra": "driver", "devicePlugin": "daemon"}[s.present().API]
		}
		return part, []string{seconds(random, mean)}, s.take(part)
	}
}

// seconds returns a random number of seconds, up to a minute.
func seconds(random *rand.Rand, mean float64) string {
	return fmt.Sprintf("%.1f", min(60, 0.1+random.ExpFloat64()*mean))
}

// take marks a part as having a fault. It returns false if the part already has one.
func (s *soaking) take(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.busy[part]
	s.busy[part] = true
	return !taken
}

func (s *soaking) free(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, part)
}

// pause waits for the number of seconds that text contains.
func (a act) pause(text string) {
	n := must(strconv.ParseFloat(text, 64))
	select {
	case <-time.After(time.Duration(n * float64(time.Second))):
	case <-a.base.ctx.Done():
	}
}

// send sends a signal to processes, ignoring processes that have ended.
func send(pids []int, s syscall.Signal) (err error) {
	for _, pid := range pids {
		if failed := syscall.Kill(pid, s); !errors.Is(failed, syscall.ESRCH) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// mountSmall mounts a one-megabyte file system, which is easy to fill.
func mountSmall(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return syscall.Mount("soak", dir, "tmpfs", 0, "size=1m,mode=755")
}

func remount(dir string, flags uintptr) error {
	return syscall.Mount("soak", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=1m,mode=755")
}

const fillerName = ".soak-filler"

// fill writes to a file until the file system is full.
func fill(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

func setClock(t time.Time) error {
	tv := syscall.NsecToTimeval(t.UnixNano())
	return os.NewSyscallError("settimeofday", syscall.Settimeofday(&tv))
}
