//go:build unix

package kube

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/toolhaven/toolhaven/deploy/crds"
)

// The one node that a cluster of [StartControlPlane] may have, and the name of the file with
// its kubeconfig.
const (
	NodeName       = "node"
	NodeKubeconfig = "kubeconfig.node"
)

// writeKeys writes the server's certificate, the key of service accounts, the tokens of the
// administrator and of a node, and the configurations with them.
func (c *Cluster) writeKeys() error {
	write := func(name, kind string, der []byte) ([]byte, error) {
		block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		return block, os.WriteFile(filepath.Join(c.dir, name), block, 0o600)
	}
	newKey := func(name string) (*ecdsa.PrivateKey, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, err
		}
		_, err = write(name, "EC PRIVATE KEY", der)
		return key, err
	}
	key, err := newKey("server.key")
	if err != nil {
		return err
	}
	if _, err := newKey("account.key"); err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if c.address != "" {
		// The second is the first address of --service-cluster-ip-range.
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(c.address), net.IPv4(10, 96, 0, 1))
		template.DNSNames = append(template.DNSNames, "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	certificate, err := write("server.crt", "CERTIFICATE", der)
	if err != nil {
		return err
	}
	token, node := rand.Text(), rand.Text()
	tokens := fmt.Sprintf("%s,admin,1,system:masters\n%s,system:node:%s,2,system:nodes\n", token, node, NodeName)
	if err := os.WriteFile(c.File("tokens"), []byte(tokens), 0o600); err != nil {
		return err
	}
	c.Config = &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", c.port), BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: certificate},
		QPS:             -1, // tests make many requests
	}
	c.Kubeconfig = c.File("kubeconfig")
	for file, token := range map[string]string{c.Kubeconfig: token, c.File(NodeKubeconfig): node} {
		err := clientcmd.WriteToFile(clientcmdapi.Config{
			Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: c.Config.Host, CertificateAuthorityData: certificate}},
			AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": {Token: token}},
			Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "user"}},
			CurrentContext: "test",
		}, file)
		if err != nil {
			return err
		}
	}
	return nil
}

// applyDefinitions creates those of deploy/crds, and waits until each is served.
func (c *Cluster) applyDefinitions() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	api, err := client.New(c.Config, client.Options{Scheme: Scheme()})
	if err != nil {
		return err
	}
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := fs.ReadFile(crds.Files, file)
		if err != nil {
			return err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := api.Create(ctx, definition); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for !established(definition) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not established within %s: %v", file, startTimeout, definition.Status.Conditions)
			case <-time.After(50 * time.Millisecond):
			}
			if err := api.Get(ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
				return err
			}
		}
	}
	return nil
}

func established(definition *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			return true
		}
	}
	return false
}
