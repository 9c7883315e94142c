package apiserver_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
)

func FuzzList(f *testing.F) {
	f.Add([]byte(head + item + "}}}]}"))
	f.Add([]byte(head + "]}"))
	f.Add([]byte(`{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"1"},"items":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := apiserver.ParseList(data, name); err == nil {
			valid(t, n)
		}
	})
}

func valid(t *testing.T, n apiserver.Node) {
	t.Helper()
	if n.Name != name || n.Exists != (n.UID != "") || !n.Exists && n.Annotations != nil {
		t.Errorf("node: found %+v, want a valid one", n)
	}
}

// Events don't depend on how the bytes are split across reads.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"type":"MODIFIED","object":` + item + `}}}` + "\n" + `{"type":"ERROR","object":{"kind":"Status","code":410}}`))
	f.Add([]byte(`{"type":"ERROR","object":{"kind":"Status","code":500}}` + "\n\n{"))
	f.Add([]byte(`{"type":"DELETED","object":{"metadata":{"name":"worker-3","uid":"u","resourceVersion":"3"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, wholeErr := apiserver.ReadEvents(bytes.NewReader(data), name)
		for _, n := range whole {
			valid(t, n)
		}
		bytewise, bytewiseErr := apiserver.ReadEvents(iotest.OneByteReader(bytes.NewReader(data)), name)
		if diff := cmp.Diff(whole, bytewise); diff != "" || wholeErr.Error() != bytewiseErr.Error() {
			t.Errorf("whole %v, byte by byte %v: (-whole +bytewise)\n%s", wholeErr, bytewiseErr, diff)
		}
	})
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(kubeconfig("server: 'https://10.0.0.1:6443', certificate-authority-data: YQ==", "tokenFile: token")))
	f.Add([]byte(kubeconfig("server: 'http://127.0.0.1:8001'", "exec: {}")))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _, _ = apiserver.ParseKubeconfig(data, "/dir")
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(403, []byte(`{"kind":"Status","message":"no"}`))
	f.Add(403, []byte(`{"kind":"Status","message":"no","details":{"causes":[{"reason":"NamespaceTerminating"},null]}}`))
	f.Add(503, []byte(strings.Repeat("ü", 400)))
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		if text := apiserver.ParseRefusal(code, body).Error(); len(text) > 400 || strings.ContainsAny(text, "\n\r") {
			t.Errorf("text: found %d bytes: %q", len(text), text)
		}
	})
}

func FuzzPod(f *testing.F) {
	f.Add([]byte(`{"kind":"PartialObjectMetadata","metadata":{"namespace":"work","name":"job","uid":"uid-1"}}`))
	f.Add([]byte(`{"metadata":{"namespace":"work","name":"jab","uid":"` + strings.Repeat("u", 400) + `"}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		uid, err := apiserver.ParsePod(data, "work", "job")
		if err == nil && (uid == "" || len(uid) > 256) {
			t.Errorf("uid: found %q, %v", uid, err)
		}
	})
}
