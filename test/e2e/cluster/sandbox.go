package cluster

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// removeSandboxes ends all pods, including their containers and networks, without involving the kubelet.
func removeSandboxes(ctx context.Context) error {
	connection, err := grpc.NewClient("unix://"+ContainerdSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	runtime := cri.NewRuntimeServiceClient(connection)
	list, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, sandbox := range list.Items {
		_, stopped := runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: sandbox.Id})
		_, removed := runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: sandbox.Id})
		err = errors.Join(err, stopped, removed)
	}
	return err
}
