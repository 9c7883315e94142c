package httpd_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/test/compare"
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
		compare.Equal(t, fmt.Sprintf("host %q at %s (%s)", test.host, test.address, test.at), test.want, answer.Code)
	}
}
