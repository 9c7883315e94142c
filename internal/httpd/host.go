package httpd

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// localOnly returns a handler that refuses requests for other hosts than this one if at is
// a loopback address. Otherwise the page of a foreign site whose name resolves to 127.0.0.1
// could read the answers, because a browser takes them for that site's (DNS rebinding).
// At any other address it returns next: clients may use names that are not known here.
//
// A request without a host is answered: no browser sends one.
func localOnly(address string, at net.Addr, next http.Handler) http.Handler {
	if tcp, ok := at.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return next
	}
	configured := hostname(address)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := hostname(r.Host); {
		case name == "", strings.EqualFold(name, "localhost"), strings.EqualFold(name, configured), isLoopback(name):
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "found a request for another host, want localhost, a loopback address or the host of --http-address", http.StatusMisdirectedRequest)
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
