package cluster

import (
	"embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

const (
	apiServer  = "https://" + serviceIP // port 443, like the service
	etcdClient = "http://" + nodeIP + ":2379"
	etcdPeer   = "http://" + nodeIP + ":2380"
)

// ContainerdSocket is the path of containerd's socket.
const ContainerdSocket = Root + "/run/containerd.sock"

//go:embed config
var configs embed.FS

// writeConfigs writes the configuration files: the ones in the config directory, and a kubeconfig for each of [users].
func writeConfigs(bin string) error {
	templates, err := template.ParseFS(configs, "config/*")
	if err != nil {
		return err
	}
	write := func(path, name, user string) error {
		var text strings.Builder
		err := templates.ExecuteTemplate(&text, name, map[string]string{
			"Root": Root, "Bin": bin, "User": user, "Server": apiServer,
			"Bridge": bridge, "NodeIP": nodeIP, "PodNet": podNet, "PauseImage": PauseImage,
		})
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(text.String()), 0o600)
	}
	for user := range users {
		if err := write(dir(user+".kubeconfig"), "kubeconfig.yaml", user); err != nil {
			return err
		}
	}
	for name, path := range map[string]string{
		"containerd.toml": dir("containerd.toml"), "kubelet.yaml": dir("kubelet.yaml"), "bridge.conflist": dir("cni", "bridge.conflist"),
	} {
		if err := write(path, name, ""); err != nil {
			return err
		}
	}
	return nil
}

// arguments returns the command line of a part of the cluster.
func arguments(name string) []string {
	pki := func(file string) string { return dir("pki", file) }
	switch name {
	case "etcd":
		return []string{
			"--name=e2e", "--data-dir=" + dir("etcd"), "--unsafe-no-fsync",
			"--listen-client-urls=" + etcdClient, "--advertise-client-urls=" + etcdClient,
			"--listen-peer-urls=" + etcdPeer, "--initial-advertise-peer-urls=" + etcdPeer, "--initial-cluster=e2e=" + etcdPeer,
		}
	case "containerd":
		return []string{"--config=" + dir("containerd.toml")}
	case "kube-apiserver":
		return []string{
			"--etcd-servers=" + etcdClient,
			"--bind-address=" + serviceIP, "--secure-port=443", "--advertise-address=" + nodeIP, "--service-cluster-ip-range=" + serviceNet,
			"--tls-cert-file=" + pki("now-apiserver.crt"), "--tls-private-key-file=" + pki("now-apiserver.key"), "--client-ca-file=" + pki("ca.crt"),
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + pki("now-sa.pub"), "--service-account-signing-key-file=" + pki("now-sa.key"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
			// Without kube-proxy, the API server has to connect directly to a webhook's pods.
			"--enable-aggregator-routing=true",
			"--kubelet-client-certificate=" + pki("admin.crt"), "--kubelet-client-key=" + pki("admin.key"),
			"--kubelet-certificate-authority=" + pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		}
	case "kube-controller-manager":
		return append(control(name, "10257"), "--use-service-account-credentials=true",
			"--service-account-private-key-file="+pki("now-sa.key"), "--root-ca-file="+pki("now-ca.crt"))
	case "kube-scheduler":
		return control(name, "10259")
	case "kubelet":
		return []string{
			"--config=" + dir("kubelet.yaml"), "--kubeconfig=" + dir("kubelet.kubeconfig"), "--hostname-override=" + NodeName, "--node-ip=" + nodeIP,
			"--tls-cert-file=" + pki("kubelet-serving.crt"), "--tls-private-key-file=" + pki("kubelet-serving.key"), "--cert-dir=" + dir("kubelet"),
		}
	}
	return nil
}

// control returns the arguments that the controller manager and the scheduler share.
func control(name, port string) []string {
	kubeconfig := dir(name + ".kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false", "--bind-address=" + nodeIP, "--secure-port=" + port, "--cert-dir=" + dir(name),
	}
}
