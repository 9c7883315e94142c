package apiserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
)

// maxSecret is the size of the largest file that is read, in bytes. A bundle of
// CAs has some hundred KB.
const maxSecret = 4 << 20

// secret is some bytes, or the path of the file that holds them and that
// somebody may renew. The zero value is not given.
type secret struct {
	data []byte
	path string
}

func (s secret) given() bool { return s.path != "" || len(s.data) > 0 }

// String says where the bytes are from, never what they are.
func (s secret) String() string {
	if s.path != "" {
		return s.path
	}
	return "in the kubeconfig"
}

// read returns the bytes as they are now.
func (s secret) read() ([]byte, error) {
	if s.path == "" {
		return s.data, nil
	}
	return readBounded(s.path, maxSecret)
}

// readBounded reads a file that has no more than so many bytes.
func readBounded(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s: more than %d bytes", path, most)
	}
	return data, nil
}

// bearer is the token, "" without one.
func (a access) bearer() (string, error) {
	if !a.token.given() {
		return "", nil
	}
	data, err := a.token.read()
	if err != nil {
		return "", fmt.Errorf("API server token: %w", err)
	}
	token := bytes.TrimSpace(data)
	if len(token) == 0 {
		return "", fmt.Errorf("API server token: %s: empty", a.token)
	}
	for _, b := range token {
		if b <= ' ' || b > '~' {
			return "", fmt.Errorf("API server token: %s: not a token: byte 0x%02x in it", a.token, b)
		}
	}
	return string(token), nil
}

// material is what a TLS configuration is made of, as read.
type material struct{ ca, cert, key []byte }

func (m material) equal(other material) bool {
	return bytes.Equal(m.ca, other.ca) && bytes.Equal(m.cert, other.cert) && bytes.Equal(m.key, other.key)
}

func (a access) material() (material, error) {
	var m material
	for _, part := range []struct {
		name string
		from secret
		to   *[]byte
	}{{"CA", a.ca, &m.ca}, {"client certificate", a.cert, &m.cert}, {"client key", a.key, &m.key}} {
		data, err := part.from.read()
		if err != nil {
			return m, fmt.Errorf("API server %s: %w", part.name, err)
		}
		*part.to = data
	}
	return m, nil
}

func (a access) tlsConfig(m material) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.serverName, InsecureSkipVerify: a.insecure}
	if a.ca.given() {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(m.ca) {
			return nil, fmt.Errorf("API server CA: %s: no PEM certificate in it", a.ca)
		}
	}
	if a.cert.given() {
		pair, err := tls.X509KeyPair(m.cert, m.key)
		if err != nil {
			return nil, fmt.Errorf("API server client certificate: %s, key: %s: %w", a.cert, a.key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
