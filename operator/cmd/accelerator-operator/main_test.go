package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
)

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string // of stderr
	}{
		{"unknown flag", []string{"--mode=af"}, "unknown flag: --mode"},
		{"argument", []string{"serve"}, `argument "serve", want none`},
		{"domain", []string{"--resource-namespace=fpga.intel.com/"}, "--resource-namespace: namespace \"fpga.intel.com/\": want a lower-case DNS name"},
		{"no namespace", nil, "--namespace: found none, want a namespace, because this is not a pod with a service account"},
		{"namespace", []string{"--namespace=Fpga"}, `--namespace: found "Fpga", want the name of an object: `},
		{"Service", []string{"--webhook-service="}, `--webhook-service: found "", want the name of an object: `},
		{"Secret", []string{"--tls-secret=../ca"}, `--tls-secret: found "../ca", want the name of an object: `},
		{"configuration", []string{"--webhook-configuration=a/b"}, `--webhook-configuration: found "a/b", want the name of an object: `},
		{"image", []string{"--plugin-image="}, `--plugin-image: found "", want REPOSITORY[:TAG][@DIGEST]`},
		{"port", []string{"--webhook-port=0"}, "--webhook-port: found 0, want 1 to 65535"},
		{"directory", []string{"--tls-cert-dir=tls"}, `--tls-cert-dir: found "tls", want an absolute path`},
		{"level", []string{"--log-level=fatal"}, `--log-level: found "fatal", want debug, info, warn or error`},
		{"format", []string{"--log-format=text"}, `--log-format: found "text", want json or console`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if tc.name != "no namespace" {
				tc.args = append([]string{"--namespace=fpga"}, tc.args...)
			}
			if code := run(context.Background(), tc.args, &out, &errs); code != 2 || !strings.Contains(errs.String(), tc.want) || out.Len() != 0 {
				t.Errorf("exit code %d, stdout %q, stderr %q, want 2 and %q", code, &out, &errs, tc.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"--version"}, &out, &errs); code != 0 || out.String() != version+"\n" || errs.Len() != 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &out, &errs)
	}
}

// A failure is logged as one line with the daemon's keys, and the exit code is 1.
func TestFailure(t *testing.T) {
	var out, errs bytes.Buffer
	missing := filepath.Join(t.TempDir(), "kubeconfig")
	compare.Equal(t, "exit code", 1, run(context.Background(), []string{"--namespace=fpga", "--kubeconfig=" + missing}, &out, &errs))
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	var last map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatalf("%v in %q", err, errs.String())
	}
	if last["event"] != "operator.failed" || last["level"] != "error" || !strings.Contains(last["error"].(string), missing) || last["time"] == nil {
		t.Errorf("last line %v", last)
	}
}
