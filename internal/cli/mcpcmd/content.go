package mcpcmd

import (
	"fmt"
	"io"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// showResource writes a resource unchanged; on a terminal, binary data is replaced by
// its type and size.
func showResource(app *base.App, c *sdk.ResourceContents) error {
	var err error
	switch {
	case !render.IsTerminal(app.Out) && len(c.Blob) > 0:
		_, err = app.Out.Write(c.Blob)
	case !render.IsTerminal(app.Out):
		_, err = io.WriteString(app.Out, c.Text)
	case len(c.Blob) > 0:
		_, err = fmt.Fprintf(app.Out, "[%s, %s; not shown on a terminal, write it to a file]\n", plaintext.Line(c.MIMEType), render.Counted(len(c.Blob), "byte"))
	default:
		err = showText(app, c.Text)
	}
	return err
}

// showContent writes content, each piece on lines of its own.
func showContent(app *base.App, content []sdk.Content) error {
	for _, c := range content {
		if err := showText(app, contentText(c)); err != nil {
			return err
		}
	}
	return nil
}

// contentText returns the text of one piece of content, or a description of it.
func contentText(c sdk.Content) string {
	data := func(kind, mimeType string, data []byte) string {
		return fmt.Sprintf("[%s, %s, %s]", kind, plaintext.Line(mimeType), render.Counted(len(data), "byte"))
	}
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return data("image", c.MIMEType, c.Data)
	case *sdk.AudioContent:
		return data("audio", c.MIMEType, c.Data)
	case *sdk.ResourceLink:
		return fmt.Sprintf("[resource %s]", plaintext.Line(c.URI))
	case *sdk.EmbeddedResource:
		switch {
		case c.Resource == nil:
			return "[resource]"
		case c.Resource.Text != "":
			return c.Resource.Text
		}
		return fmt.Sprintf("[resource %s]", plaintext.Line(c.Resource.URI))
	}
	return fmt.Sprintf("[%T]", c)
}

// showText writes text and ends its last line. On a terminal, control sequences are
// removed.
func showText(app *base.App, text string) error {
	if render.IsTerminal(app.Out) {
		text = plaintext.Lines(text)
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(app.Out, text)
	return err
}
