package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// sshSession runs git-upload-pack over SSH. The library's transport connects without
// a check of the address; this one receives a checked connection.
//
// The host must be in known_hosts (SSH_KNOWN_HOSTS, ~/.ssh/known_hosts or
// /etc/ssh/ssh_known_hosts). passwordFile holds a private key in PEM or a
// password; without it the SSH agent is used.
type sshSession struct {
	client *ssh.Client
	agent  net.Conn // or nil
	in     io.WriteCloser
	out    *countedReader
	said   bool // a request was sent
}

func (r *repository) openSSH(ctx context.Context) (_ gitSession, err error) {
	port := r.url.Port()
	if port == "" {
		port = "22"
	}
	address := net.JoinHostPort(r.url.Hostname(), port)
	known, err := gitssh.NewKnownHostsDb()
	if err != nil {
		return nil, fmt.Errorf("known hosts: %w", err)
	}
	s := &sshSession{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	method, err := r.sshAuth(ctx, s)
	if err != nil {
		return nil, err
	}
	user := r.username()
	if user == "" {
		user = gitssh.DefaultUsername
	}
	conn, err := r.access.dial(ctx, r.AllowPrivateIP, "tcp", address)
	if err != nil {
		return nil, err
	}
	// The handshake has no context: closing the connection ends it.
	context.AfterFunc(ctx, func() { conn.Close() })
	secured, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{method},
		HostKeyCallback: known.HostKeyCallback(), HostKeyAlgorithms: known.HostKeyAlgorithms(address),
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("SSH: %w", err)
	}
	s.client = ssh.NewClient(secured, channels, requests)
	session, err := s.client.NewSession()
	if err != nil {
		return nil, fmt.Errorf("SSH: %w", err)
	}
	if s.in, err = session.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = &countedReader{out, budget{maxRefs, errTooManyRefs}}
	if err := session.Start("git-upload-pack " + quoted(r.url.Path)); err != nil {
		return nil, fmt.Errorf("SSH: %w", err)
	}
	return s, nil
}

func (r *repository) sshAuth(ctx context.Context, s *sshSession) (ssh.AuthMethod, error) {
	switch {
	case strings.HasPrefix(strings.TrimSpace(r.password), "-----BEGIN"):
		// The final line break is part of the format.
		key, err := ssh.ParsePrivateKey([]byte(r.password + "\n"))
		if err != nil {
			return nil, errors.New("passwordFile: the private key in it cannot be read (one with a passphrase cannot be used)")
		}
		return ssh.PublicKeys(key), nil
	case r.password != "":
		return ssh.Password(r.password), nil
	}
	socket := os.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, errors.New("there is no way to authenticate: set username and passwordFile (a password or a private key), or run an SSH agent")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("SSH agent: %w", err)
	}
	s.agent = conn
	return ssh.PublicKeysCallback(agent.NewClient(conn).Signers), nil
}

// quoted is text as one word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func (s *sshSession) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	err := refs.Decode(s.out)
	switch {
	case errors.Is(err, packp.ErrEmptyInput):
		return nil, transport.ErrRepositoryNotFound // the message on stderr has no fixed form
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return nil, transport.ErrEmptyRemoteRepository
	case err != nil:
		return nil, err
	case refs.IsEmpty():
		return nil, transport.ErrEmptyRemoteRepository
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

func (s *sshSession) UploadPack(_ context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	s.said = true
	s.out.budget = packBudget
	if err := req.UploadRequest.Encode(s.in); err != nil {
		return nil, err
	}
	if err := req.UploadHaves.Encode(s.in, true); err != nil {
		return nil, err
	}
	if err := pktline.NewEncoder(s.in).Encodef("done\n"); err != nil {
		return nil, err
	}
	if err := s.in.Close(); err != nil {
		return nil, err
	}
	resp := packp.NewUploadPackResponse(req)
	if err := resp.Decode(io.NopCloser(s.out)); err != nil {
		return nil, err
	}
	return resp, nil
}

func (s *sshSession) Close() error {
	if s.agent != nil {
		s.agent.Close()
	}
	if s.client == nil {
		return nil
	}
	if s.in != nil && !s.said {
		// A flush ends the session on the server without an error.
		_, _ = s.in.Write(pktline.FlushPkt)
	}
	return s.client.Close()
}

type countedReader struct {
	io.Reader
	budget
}

func (c *countedReader) Read(p []byte) (int, error) { return c.take(c.Reader.Read(p)) }
