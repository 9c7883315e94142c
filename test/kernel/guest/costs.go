package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
)

// step is an action that is measured separately.
type step struct {
	name string
	do   func() error
}

// costs measures each step between the kernel and the kubelet n times. The results explain the other numbers in the
// tables. The card stays plugged in.
func (r *rig) costs(ctx context.Context, n int, card []string) error {
	slot, err := slotOf(card)
	if err != nil {
		return err
	}
	address := "0000:" + slot
	if err := r.kernelCosts(n, address, card); err != nil {
		return err
	}
	peer, err := startPeer(ctx)
	if err != nil {
		return err
	}
	client, err := grpc.NewClient("unix:"+peerSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return errors.Join(err, peer.end())
	}
	listener, err := listenGo()
	if err != nil {
		return errors.Join(err, client.Close(), peer.end())
	}
	ports, err := filepath.Glob("/sys/bus/pci/devices/" + address + "/fpga_region/region*/dfl-port.*")
	if err == nil && len(ports) == 0 {
		err = fmt.Errorf("%s: found no port", address)
	}
	if err == nil {
		err = r.time(n, []step{
			{"open, read, close: an attribute", func() error { return attribute("/sys/bus/pci/devices/" + address + "/vendor") }},
			{"the same, with a register of the card", func() error { return attribute(ports[0] + "/errors/errors") }},
			{"a reading of the card, as the daemon's", func() error {
				_, err := dfl.Family(port.PerPort).Read(sysfs.Host{Sys: "/sys", Dev: "/dev"}, address)
				return err
			}},
			{"a uevent, for the kernel alone", sendUEvent},
			{"a uevent, until a Go program has it", func() error { return errors.Join(sendUEvent(), listener.await(ctx)) }},
			{"pipes to a Go process and back", peer.echo},
			{"gRPC to a Go process and back", func() error {
				_, err := podresources.NewPodResourcesListerClient(client).List(ctx, &podresources.ListPodResourcesRequest{})
				return err
			}},
		})
	}
	return errors.Join(err, listener.close(), client.Close(), peer.end())
}

// kernelCosts measures the kernel's own time between a card's uevents, while no other process is using the only
// processor.
func (r *rig) kernelCosts(n int, address string, card []string) error {
	for i := range n + 1 {
		begin := time.Now()
		if err := r.plug(card); err != nil {
			return err
		}
		bind, bound := r.uevents.first(begin, "bind", address, "dfl-port.")
		first, last, _ := r.uevents.span(begin, address)
		if !bound {
			return fmt.Errorf("%s: found no uevent bind of a port", address)
		}
		r.steps.add("kernel, card in: first uevent → port's bind", bind.Sub(first))
		r.steps.add("kernel, card in: port's bind → last uevent", last.Sub(bind))
		if i == n {
			return nil
		}
		begin = time.Now()
		if err := r.pull(card); err != nil {
			return err
		}
		first, last, _ = r.uevents.span(begin, address)
		unbind, _ := r.uevents.first(begin, "unbind", address, "dfl-fme.")
		r.steps.add("kernel, card out: first uevent → FME's unbind", unbind.Sub(first))
		r.steps.add("kernel, card out: FME's unbind → last uevent", last.Sub(unbind))
	}
	return nil
}

// time runs each step 5 times to warm up, and then n times for the table.
func (r *rig) time(n int, steps []step) error {
	const warm = 5
	for _, s := range steps {
		for i := range n + warm {
			begin := time.Now()
			if err := s.do(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if i >= warm {
				r.steps.add(s.name, time.Since(begin))
			}
		}
	}
	return nil
}

// attribute opens, reads and closes a sysfs file.
func attribute(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var buffer [256]byte
	_, err = unix.Read(fd, buffer[:])
	return errors.Join(err, unix.Close(fd))
}

// sendUEvent makes the kernel send a uevent about /dev/null.
func sendUEvent() error { return write("/sys/class/mem/null/uevent", "change") }

// listener receives uevents the way a typical Go program does: in a goroutine that waits in the runtime's poller.
type listener struct {
	socket   *os.File
	received chan struct{}
	ended    chan struct{}
}

func listenGo() (*listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	l := &listener{socket: os.NewFile(uintptr(fd), "uevents"), received: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		buffer := make([]byte, 8192)
		for {
			if _, err := l.socket.Read(buffer); err != nil {
				return
			}
			select {
			case l.received <- struct{}{}:
			default: // from the kernel-only step, which doesn't wait for the uevent
			}
		}
	}()
	return l, nil
}

func (l *listener) await(ctx context.Context) error {
	select {
	case <-l.received:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *listener) close() error {
	err := l.socket.Close()
	<-l.ended
	return err
}
