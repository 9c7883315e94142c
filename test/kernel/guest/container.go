package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// containerDir stands in for a container's /dev.
const containerDir = "/run/container"

// hold is a device that a pod holds.
type hold struct{ pod, resource, device string }

// hold gives a device to a pod the way the kubelet does: it calls the daemon's Allocate, records the response in the
// checkpoint, and lists the device in the pod-resources API.
func (r *rig) hold(ctx context.Context, device, pod string) error {
	if r.kubelet == nil {
		return errors.New("the kubelet is not running")
	}
	resource, err := r.newest().resourceOf(device)
	if err != nil {
		return err
	}
	if _, err := r.kubelet.kubelet.Allocate(ctx, resource, device); err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(pod, "/")
	r.pods.Hold(namespace, name, "main", resource, device)
	r.holds = append(r.holds, hold{pod, resource, device})
	return nil
}

// release ends a pod, and removes its devices from the checkpoint and the pod-resources API.
func (r *rig) release(pod string) {
	namespace, name, _ := strings.Cut(pod, "/")
	r.pods.Release(namespace, name)
	r.holds = slices.DeleteFunc(r.holds, func(h hold) bool {
		if h.pod == pod && r.kubelet != nil {
			r.kubelet.kubelet.End(h.resource, h.device)
		}
		return h.pod == pod
	})
}

// openNode opens a device node, and keeps it open until closeNode or until the machine ends. Don't close a port after
// its card has been removed, because the driver would read registers that are no longer mapped, and the kernel would
// oops (Linux 6.1, __afu_port_disable called by afu_release).
func (r *rig) openNode(node string) error {
	f, err := r.opens.open(node, 0)
	if err == nil {
		r.kept = append(r.kept, f)
	}
	return err
}

// openOwn is like openNode, but opens the container's device node, as a process in the container would.
func (r *rig) openOwn(node string) error {
	f, err := os.OpenFile(filepath.Join(containerDir, node), os.O_RDWR, 0)
	if err == nil {
		r.kept = append(r.kept, f)
	}
	return err
}

// closeNode closes the device node with this name that was opened last. Its card must still be plugged in, but the
// cards of device nodes opened earlier may have been removed.
func (r *rig) closeNode(node string) error {
	for at, f := range slices.Backward(r.kept) {
		if strings.HasSuffix(f.Name(), "/"+node) {
			r.kept = slices.Delete(r.kept, at, at+1)
			return f.Close()
		}
	}
	return fmt.Errorf("%s is not open", node)
}

// mknod creates a device node in the container's /dev, as a container runtime would. It copies the number that the
// host's device node has now.
func (r *rig) mknod(node string) error {
	var host unix.Stat_t
	if err := unix.Stat(filepath.Join("/dev", node), &host); err != nil {
		return fmt.Errorf("stat /dev/%s: %w", node, err)
	}
	if err := os.MkdirAll(containerDir, 0o755); err != nil {
		return err
	}
	return unix.Mknod(filepath.Join(containerDir, node), host.Mode, int(host.Rdev))
}

// reaches opens the container's device node, and returns an error unless it has the number of the device's port.
func (r *rig) reaches(node, device string) error {
	dirs, err := ports()
	if err != nil {
		return err
	}
	dir, ok := dirs[device]
	if !ok {
		return fmt.Errorf("ports in sysfs: found %v, want %s", dirs, device)
	}
	f, err := os.OpenFile(filepath.Join(containerDir, node), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var opened unix.Stat_t
	if err := errors.Join(unix.Fstat(int(f.Fd()), &opened), f.Close()); err != nil {
		return err
	}
	number := fmt.Sprintf("%d:%d", unix.Major(opened.Rdev), unix.Minor(opened.Rdev))
	if want := text(dir, "dev"); number != want {
		return fmt.Errorf("device number of %s: found %s, want %s of %s", node, number, want, filepath.Base(dir))
	}
	return nil
}
