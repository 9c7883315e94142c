package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// host is the connection, over a serial port, to the process that emulates the cards.
type host struct {
	mu      sync.Mutex // held during a request
	port    *os.File
	answers *bufio.Reader
}

func dialHost(path string) (*host, error) {
	port, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if err := raw(port); err != nil {
		return nil, errors.Join(err, port.Close())
	}
	return &host{port: port, answers: bufio.NewReader(port)}, nil
}

// raw makes a serial port transmit all bytes unchanged (cfmakeraw(3)).
func raw(port *os.File) error {
	t, err := unix.IoctlGetTermios(int(port.Fd()), unix.TCGETS)
	if err != nil {
		return fmt.Errorf("%s: %w", port.Name(), err)
	}
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8 | unix.CLOCAL
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(port.Fd()), unix.TCSETS, t); err != nil {
		return fmt.Errorf("%s: %w", port.Name(), err)
	}
	return nil
}

// ask sends a request and returns the answer. An answer of the form "err TEXT" becomes an error.
func (h *host) ask(request string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := fmt.Fprintln(h.port, request); err != nil {
		return "", fmt.Errorf("host: %w", err)
	}
	return readAnswer(h.answers)
}

// readAnswer reads a line, which consists of a verdict and text. It returns the text, as an error unless the verdict is
// ok.
func readAnswer(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("host: %w", err)
	}
	verdict, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
	if verdict != "ok" {
		return "", fmt.Errorf("host: %s", answer)
	}
	return answer, nil
}

// say makes the host print lines to its standard output.
func (h *host) say(text string) error {
	for line := range strings.SplitSeq(text, "\n") {
		if _, err := h.ask("say " + line); err != nil {
			return err
		}
	}
	return nil
}
