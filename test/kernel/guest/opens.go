package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// opens records, by inotify, each open of a node of the DFL drivers. What neither we nor the
// commands of a story open is the daemon's, which must open none: when the last one closes
// a port, its AFU is reset.
type opens struct {
	inotify int
	foreign []string // names of nodes
	running bool     // commands run, and opens are attributed to them
	theirs  []string
}

func watchOpens(dir string) (*opens, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_OPEN)
	return &opens{inotify: fd}, err
}

// open opens a node for ourselves. Equal events that stand in the queue are one: it
// is read before and after.
func (o *opens) open(name string, flags int) (*os.File, error) {
	if err := o.take(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile("/dev/"+name, os.O_RDWR|flags, 0)
	if err != nil {
		return nil, err
	}
	during, err := o.read()
	if at := slices.Index(during, name); at >= 0 {
		during = slices.Delete(during, at, at+1)
	} else if err == nil {
		err = fmt.Errorf("inotify did not tell that we opened %s", name)
	}
	o.add(during)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// take reads the opens until now.
func (o *opens) take() error {
	names, err := o.read()
	o.add(names)
	return err
}

func (o *opens) add(names []string) {
	if o.running {
		o.theirs = append(o.theirs, names...)
	} else {
		o.foreign = append(o.foreign, names...)
	}
}

// attribute begins or ends to attribute opens to commands.
func (o *opens) attribute(running bool) error {
	err := o.take()
	o.running = running
	return err
}

// byCommands returns the nodes that commands have opened since it was last called, sorted.
func (o *opens) byCommands() ([]string, error) {
	err := o.take()
	slices.Sort(o.theirs)
	names := slices.Compact(o.theirs)
	o.theirs = nil
	return names, err
}

// check says which nodes somebody else has opened since it was last called.
func (o *opens) check() error {
	err := o.take()
	foreign := o.foreign
	o.foreign, o.theirs = nil, nil
	if err == nil && len(foreign) > 0 {
		err = fmt.Errorf("somebody opened %s", strings.Join(foreign, ", "))
	}
	return err
}

// read takes what inotify has: names of DFL nodes.
func (o *opens) read() ([]string, error) {
	var names []string
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.Read(o.inotify, buffer)
		if errors.Is(err, unix.EAGAIN) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("inotify: %w", err)
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			name := strings.TrimRight(string(rest[unix.SizeofInotifyEvent:end]), "\x00")
			if mask := binary.NativeEndian.Uint32(rest[4:]); mask&unix.IN_Q_OVERFLOW != 0 {
				return nil, errors.New("inotify overflow: who opened what is not known")
			}
			if strings.HasPrefix(name, "dfl-") {
				names = append(names, name)
			}
			rest = rest[end:]
		}
	}
}
