package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
)

// Each request gets an answer of one line, until the guest closes the connection.
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
			t.Errorf("%q: got %q, %v; want %q", tc.request, got, err, tc.want)
		}
	}
	guest.Close()
	if got := <-ended; got != "0 false" {
		t.Errorf("got %s, want no status after the guest has closed the connection", got)
	}
}

// The answer to an error of several lines is one line.
func TestAnswerOf(t *testing.T) {
	if got := answerOf("", errors.Join(errors.New("a"), errors.New("b"))); got != "err a; b\n" {
		t.Errorf("got %q, want one line", got)
	}
}
