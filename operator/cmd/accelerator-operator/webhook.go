package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/httpd"
)

// webhookServer serves the webhook over TLS. It implements [manager.Runnable].
type webhookServer struct {
	port        int
	handler     http.Handler // handles requests for path
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	clientCA    string // path of the CA file; "" if clients don't need certificates
	log         *zap.Logger
	listening   atomic.Bool
}

// NeedLeaderElection implements [manager.LeaderElectionRunnable]. It returns false, because every replica serves.
func (*webhookServer) NeedLeaderElection() bool { return false }

// Start serves until ctx is done.
func (s *webhookServer) Start(ctx context.Context) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: s.certificate}
	if s.clientCA != "" {
		text, err := os.ReadFile(s.clientCA)
		if err != nil {
			return fmt.Errorf("--client-ca: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("--client-ca: %s: found no certificate, want those of CAs in PEM", s.clientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+strconv.Itoa(s.port))
	if err != nil {
		return err
	}
	s.listening.Store(true)
	defer s.listening.Store(false)
	mux := http.NewServeMux()
	mux.Handle(path, s.handler)
	return httpd.ServeBodies(ctx, tls.NewListener(listener, config), mux, s.log)
}

// serves returns an error if the webhook isn't being served with a certificate.
func (s *webhookServer) serves() error {
	if !s.listening.Load() {
		return errors.New("the webhook is not served yet")
	}
	_, err := s.certificate(&tls.ClientHelloInfo{})
	return err
}
