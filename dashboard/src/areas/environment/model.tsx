import { Button, Code, CopyButton, Group, Stack, Text } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import { useTexts } from '~/i18n';
import { masked } from '~/secrecy';
import { messages as common } from '~/ui/messages';
import { messages } from './messages';
import { useShownEnvironment } from './shown';

/** The objects as the open session has them, read only and without secrets. */
export function Model() {
  const t = useTexts(messages);
  const c = useTexts(common);
  const { environment } = useShownEnvironment();
  if (!environment) return null;
  const text = JSON.stringify(masked(environment.services), null, 2);
  return (
    <Stack>
      <Group justify="space-between">
        <Text c="dimmed" size="sm">
          {t('modelText')}
        </Text>
        <CopyButton value={text}>
          {({ copied, copy }) => (
            <Button variant="default" size="xs" leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />} onClick={copy}>
              {copied ? c('copied') : c('copy')}
            </Button>
          )}
        </CopyButton>
      </Group>
      <Code block tabIndex={0} mah="65vh" style={{ overflow: 'auto' }}>
        {text}
      </Code>
    </Stack>
  );
}
