package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
)

// The line to the guest: one answer of one line to each request, until the line ends.
func TestServeRequests(t *testing.T) {
	m := plugged(t, "a10")
	guest, control := net.Pipe()
	m.control = control
	ended := make(chan string, 1)
	go func() {
		status, ok := m.serve()
		ended <- fmt.Sprint(status, ok)
	}()
	answers := bufio.NewReader(guest)
	for _, tc := range []struct{ request, want string }{
		{"cards", "ok c0\n"},
		{"\n  cards  ", "ok c0\n"}, // an empty line is no request
		{"error c0 1", "ok \n"},
		{"error c7 1", "err card \"c7\" is not plugged\n"},
		{"exit soon", "err strconv.Atoi: parsing \"soon\": invalid syntax\n"},
	} {
		if _, err := io.WriteString(guest, tc.request+"\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := answers.ReadString('\n'); err != nil || got != tc.want {
			t.Errorf("%q: %q, %v; want %q", tc.request, got, err, tc.want)
		}
	}
	guest.Close()
	if got := <-ended; got != "0 false" {
		t.Errorf("%s, want no status of a guest that went away", got)
	}
}

// An error of several lines is answered in one.
func TestAnswerOf(t *testing.T) {
	if got := answerOf("", errors.Join(errors.New("a"), errors.New("b"))); got != "err a; b\n" {
		t.Errorf("%q", got)
	}
}
