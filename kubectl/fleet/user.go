package fleet

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// maxUser is the maximum length of a user name that the plugin accepts, in characters.
const maxUser = 64

// User returns the user's name according to the API server, in a form that the plugin accepts. If the name is too long,
// User cuts out the middle.
func (f *Fleet) User(ctx context.Context) (string, error) {
	client, err := authenticationclient.NewForConfig(f.config)
	if err != nil {
		return "", err
	}
	review, err := client.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("your user name: the API server cannot tell it, want Kubernetes 1.28 or newer")
	}
	if err != nil {
		return "", fmt.Errorf("your user name: %w", refusal(err))
	}
	name := []rune(Printable(review.Status.UserInfo.Username))
	if len(name) > maxUser {
		const end = maxUser / 2
		name = append(append(name[:maxUser-end-1:maxUser-end-1], '…'), name[len(name)-end:]...)
	}
	return string(name), nil
}
