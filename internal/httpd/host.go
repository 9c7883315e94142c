package httpd

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// localOnly refuses requests for other hosts than this one where listener has a
// loopback address. A page of a foreign site whose name resolves to 127.0.0.1 (DNS
// rebinding) could read the answers otherwise: to a browser they are of that site.
// At any other address, clients may use names that only they know.
//
// A request without a host is answered: no browser sends one.
func localOnly(address string, listener net.Listener, next http.Handler) http.Handler {
	if tcp, ok := listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return next
	}
	configured := hostname(address)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := hostname(r.Host); {
		case name == "", strings.EqualFold(name, "localhost"), strings.EqualFold(name, configured), isLoopback(name):
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "found a request for another host, want localhost or a loopback address", http.StatusMisdirectedRequest)
		}
	})
}

// hostname returns host:port without port and brackets.
func hostname(hostport string) string {
	return (&url.URL{Host: hostport}).Hostname()
}

func isLoopback(name string) bool {
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}
