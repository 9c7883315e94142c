package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// qemuTimeout limits each wait for qemu.
const qemuTimeout = 30 * time.Second

// qmp is a connection to qemu's monitor (docs/interop/qmp-spec.rst in qemu). It runs one command at a time.
type qmp struct {
	conn    *net.UnixConn
	answers chan message // capacity 1, because only one command runs at a time
	deleted chan string  // IDs of devices that the guest has released; can't fill up between two requests
	ended   chan struct{}
}

type message struct {
	Event string `json:"event"`
	Data  struct {
		Device string `json:"device"`
	} `json:"data"`
	Error *struct {
		Desc string `json:"desc"`
	} `json:"error"`
}

func newQMP(conn *net.UnixConn) *qmp {
	return &qmp{conn: conn, answers: make(chan message, 1), deleted: make(chan string, 2*slots*functions), ended: make(chan struct{})}
}

// read forwards qemu's answers to q.answers, where a command is waiting for each of them, and DEVICE_DELETED events to
// q.deleted, which [machine.dropReleased] empties at the start of each request. It returns when the connection ends.
func (q *qmp) read() {
	defer close(q.ended)
	d := json.NewDecoder(q.conn)
	for {
		var m message
		if err := d.Decode(&m); err != nil {
			return
		}
		switch {
		case m.Event == "DEVICE_DELETED" && m.Data.Device != "":
			q.deleted <- m.Data.Device
		case m.Event == "":
			q.answers <- m
		}
	}
}

func (q *qmp) greet() error {
	if _, err := q.answer(); err != nil {
		return err
	}
	return q.do("qmp_capabilities", nil, -1)
}

// do runs a command. Unless fd is -1, it sends the file descriptor along with the command.
func (q *qmp) do(command string, arguments map[string]any, fd int) error {
	text, err := json.Marshal(struct {
		Execute   string         `json:"execute"`
		Arguments map[string]any `json:"arguments,omitempty"`
	}{command, arguments})
	if err != nil {
		return err
	}
	var rights []byte
	if fd >= 0 {
		rights = syscall.UnixRights(fd)
	}
	if _, _, err := q.conn.WriteMsgUnix(append(text, '\n'), rights, nil); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	m, err := q.answer()
	if err == nil && m.Error != nil {
		err = errors.New(m.Error.Desc)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

func (q *qmp) answer() (message, error) {
	select {
	case m := <-q.answers:
		return m, nil
	case <-q.ended:
		return message{}, errors.New("qemu has ended")
	case <-time.After(qemuTimeout):
		return message{}, fmt.Errorf("timeout: qemu has not answered within %v", qemuTimeout)
	}
}

// awaitDeleted waits until the guest has released a device, and returns the device's ID.
func (q *qmp) awaitDeleted() (string, error) {
	select {
	case gone := <-q.deleted:
		return gone, nil
	case <-q.ended:
		return "", errors.New("qemu has ended")
	case <-time.After(qemuTimeout):
		return "", fmt.Errorf("timeout: the guest has not released the card within %v", qemuTimeout)
	}
}
