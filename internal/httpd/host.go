package httpd

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// localOnly protects a server on a loopback address from DNS rebinding: if a website's name resolves to 127.0.0.1, a
// browser would let the site's pages read the responses. If the server listens on a loopback address, the returned
// handler rejects requests whose host isn't the local host. Otherwise localOnly returns next, because clients may use
// names that we don't know.
//
// Requests without a host are allowed, because browsers don't send them.
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
			http.Error(w, fmt.Sprintf("host: found %.100q, want localhost, a loopback address or the host of --http-address", name), http.StatusMisdirectedRequest)
		}
	})
}

// hostname returns hostport without the port or any brackets.
func hostname(hostport string) string {
	return (&url.URL{Host: hostport}).Hostname()
}

func isLoopback(name string) bool {
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}
