package httpd_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/httpd"
)

func TestHosts(t *testing.T) {
	const refused, answered = http.StatusMisdirectedRequest, http.StatusOK
	for _, test := range []struct {
		address, at, host string
		want              int
	}{
		{"127.0.0.1:9480", "127.0.0.1", "127.0.0.1:9480", answered},
		{"127.0.0.1:9480", "127.0.0.1", "127.0.0.1", answered},
		{"127.0.0.1:9480", "127.0.0.1", "127.1.2.3:1", answered}, // a tunnel has a port of its own
		{"127.0.0.1:9480", "127.0.0.1", "localhost:9480", answered},
		{"127.0.0.1:9480", "127.0.0.1", "LocalHost", answered},
		{"127.0.0.1:9480", "127.0.0.1", "[::1]:9480", answered},
		{"127.0.0.1:9480", "127.0.0.1", "[::1]", answered},
		{"127.0.0.1:9480", "127.0.0.1", "", answered},
		{"[::1]:9480", "::1", "localhost", answered},
		{"worker-1:9480", "127.0.1.1", "Worker-1:9480", answered},
		{"127.0.0.1:9480", "127.0.0.1", "worker-1:9480", refused},
		{"127.0.0.1:9480", "127.0.0.1", "attacker.example", refused},
		{"127.0.0.1:9480", "127.0.0.1", "attacker.example:9480", refused},
		{"127.0.0.1:9480", "127.0.0.1", "127.0.0.1.attacker.example:9480", refused},
		{"127.0.0.1:9480", "127.0.0.1", "localhost.attacker.example", refused},
		{"127.0.0.1:9480", "127.0.0.1", "10.0.0.7:9480", refused},
		{"127.0.0.1:9480", "127.0.0.1", "0.0.0.0:9480", refused},
		{"[::1]:9480", "::1", "attacker.example", refused},
		{":9480", "::", "10.0.0.7:9480", answered},
		{":9480", "::", "worker-1.example.com", answered},
		{"10.0.0.7:9480", "10.0.0.7", "attacker.example", answered},
	} {
		handler := httpd.LocalOnly(test.address, &net.TCPAddr{IP: net.ParseIP(test.at)}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		request := httptest.NewRequest(http.MethodGet, "/devices", nil)
		request.Host = test.host
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != test.want {
			t.Errorf("host %q at %s (%s) = %d, want %d", test.host, test.address, test.at, answer.Code, test.want)
		}
	}
}

// The same over a connection, with requests that no client of net/http sends.
func TestHostsOfRequests(t *testing.T) {
	address := strings.TrimPrefix(serve(t, httpd.Answers{Ready: func(context.Context) error { return nil }}), "http://")
	for request, want := range map[string]string{
		"GET /readyz HTTP/1.0\r\n\r\n":                                                              "HTTP/1.0 200 OK",
		"GET /readyz HTTP/1.0\r\nHost: attacker.example\r\n\r\n":                                    "HTTP/1.0 421 Misdirected Request",
		"GET /readyz HTTP/1.1\r\nHost:\r\n\r\n":                                                     "HTTP/1.1 200 OK",
		"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n":                                           "HTTP/1.1 200 OK",
		"GET /readyz HTTP/1.1\r\n\r\n":                                                              "HTTP/1.1 400 Bad Request: missing required Host header",
		"GET http://attacker.example/readyz HTTP/1.1\r\nHost: localhost\r\n\r\n":                    "HTTP/1.1 421 Misdirected Request",
		"GET /readyz HTTP/1.1\r\nHost: attacker.example\r\nX-Forwarded-Host: localhost\r\n\r\n":     "HTTP/1.1 421 Misdirected Request",
		"GET /readyz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n":             "HTTP/1.1 413 Request Entity Too Large",
		"GET /readyz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 20_000) + "\r\n\r\n": "HTTP/1.1 431 Request Header Fields Too Large",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, request) // where it fails, so does the answer
		answer, err := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if first := strings.TrimSpace(answer); first != want {
			t.Errorf("%.90q is answered by %q, %v, want %q", request, first, err, want)
		}
	}
}
