package main

import (
	"fmt"
	"os"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/recorder"
)

// apiServer is the API server, where something is asked or told there; else nil.
func (s *service) apiServer() (*apiserver.Client, error) {
	if s.cfg.NodeName == "" || !s.cfg.NodeAnnotation && !s.cfg.Events {
		return nil, nil
	}
	client, err := apiserver.Open(apiserver.Config{
		Kubeconfig: s.cfg.Kubeconfig, LookupEnv: os.LookupEnv, UserAgent: "accelerator-device-plugin/" + buildVersion(),
		Failed: s.metrics.APIFailed,
	}, s.log)
	if err != nil {
		return nil, fmt.Errorf("--node-name %s: %w", s.cfg.NodeName, err)
	}
	return client, nil
}

// recorder is what writes Kubernetes Events; nil where none are.
func (s *service) recorder(client *apiserver.Client) *recorder.Recorder {
	if client == nil || !s.cfg.Events {
		return nil
	}
	return recorder.New(recorder.Config{Node: s.cfg.NodeName, Client: client, Count: s.metrics.APIEvent}, s.log)
}
