package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unsafe"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

const (
	bundleDir = "/run/bundles"
	cdiKind   = "fpga.intel.com/fpga" // kind of the CDI devices in the daemon's spec
)

// writeBundle writes to dir the OCI bundle of a container with these environment variables. As in a container runtime,
// the CDI library adds the devices and their hooks from the CDI specs in a directory. A device is either the daemon's
// device ID or a CDI device name.
func writeBundle(dir, specs string, devices, env []string) error {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(specs), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	spec := containerSpec(env)
	var names []string
	for _, device := range devices {
		if !strings.Contains(device, "=") {
			device = cdiKind + "=" + device
		}
		names = append(names, device)
	}
	if _, err := cache.InjectDevices(spec, names...); err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "rootfs"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
}

// containerSpec returns the spec of a container that runs "init container" and isn't allowed to open any devices.
func containerSpec(env []string) *oci.Spec {
	return &oci.Spec{
		Version: oci.Version,
		Process: &oci.Process{
			Args: []string{"/init", "container"}, Env: append([]string{"PATH=/bin"}, env...), Cwd: "/", NoNewPrivileges: true,
			Capabilities: &oci.LinuxCapabilities{},
		},
		Root: &oci.Root{Path: "rootfs"},
		Mounts: []oci.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
			{Destination: "/sys", Type: "bind", Source: "/sys", Options: []string{"bind", "ro"}},
			{Destination: "/init", Type: "bind", Source: "/init", Options: []string{"bind", "ro"}},
			// Make it look as if the image contained accelerator-fpga, and the pod had a volume with bitstreams.
			{Destination: tool, Type: "bind", Source: tool, Options: []string{"bind", "ro"}},
			{Destination: "/bitstreams", Type: "bind", Source: bitstreamDir, Options: []string{"bind", "ro", "noexec"}},
		},
		Linux: &oci.Linux{
			Namespaces: []oci.LinuxNamespace{
				{Type: oci.PIDNamespace}, {Type: oci.MountNamespace}, {Type: oci.IPCNamespace}, {Type: oci.UTSNamespace}, {Type: oci.NetworkNamespace},
			},
			Resources: &oci.LinuxResources{Devices: []oci.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
		},
	}
}

// runInContainer runs inside a container. If the variable OWN names a file in the volume /bitstreams, it first programs
// the container's card with that file. It opens each port in /dev and prints the port's AFU. It maps each BAR that it
// is allowed to write to, and prints the BAR's first word.
func runInContainer() error {
	if file := os.Getenv("OWN"); file != "" {
		fme, err := filepath.Glob("/dev/dfl-fme.*")
		if err == nil && len(fme) != 1 {
			err = fmt.Errorf("nodes of FMEs: found %v, want one", fme)
		}
		if err != nil {
			return err
		}
		pr := exec.Command(tool, "pr", "--device", fme[0], filepath.Join("/bitstreams", file))
		pr.Stdout, pr.Stderr = os.Stdout, os.Stderr
		if err := pr.Run(); err != nil {
			return err
		}
	}
	nodes, err := filepath.Glob("/dev/dfl-port.*")
	if err != nil {
		return err
	}
	mapped, err := mapResources()
	if err != nil {
		return err
	}
	if len(nodes)+mapped == 0 {
		return errors.New("found no port in /dev, and no writable file of a BAR, want at least one")
	}
	for _, node := range nodes {
		port, err := os.OpenFile(node, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		if err := errors.Join(unix.Fstat(int(port.Fd()), &stat), port.Close()); err != nil {
			return err
		}
		afu, err := os.ReadFile(fmt.Sprintf("/sys/dev/char/%d:%d/afu_id", unix.Major(stat.Rdev), unix.Minor(stat.Rdev)))
		if err != nil {
			return err
		}
		fmt.Printf("%s has %s", filepath.Base(node), afu)
	}
	return nil
}

// mapResources maps the first page of each BAR of a PCI function, as a program would, and prints the BAR's first word.
// It skips BARs whose files are read-only in this container. It returns how many BARs it has mapped.
func mapResources() (mapped int, err error) {
	files, err := filepath.Glob("/sys/bus/pci/devices/*/resource[0-9]*")
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_SYNC, 0)
		if errors.Is(err, unix.EROFS) {
			continue
		}
		if err != nil {
			return mapped, err
		}
		page, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return mapped, fmt.Errorf("mmap %s: %w", name, err)
		}
		fmt.Printf("%s has %#x\n", strings.TrimPrefix(name, "/sys/bus/pci/devices/"), *(*uint32)(unsafe.Pointer(&page[0])))
		if err := errors.Join(unix.Munmap(page), f.Close()); err != nil {
			return mapped, err
		}
		mapped++
	}
	return mapped, err
}
