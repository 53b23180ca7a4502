import { Badge, Code, Group, Stack, Text } from '@mantine/core';
import { useTexts } from '~/i18n';
import { messages } from './messages';
import type { Finding } from './queries';

/** What the check of a package found: where, what, and the lines around it. All of it is shown as text. */
export function FindingList({ findings }: { findings: Finding[] }) {
  const t = useTexts(messages);
  if (findings.length === 0) {
    return (
      <Text size="sm" c="dimmed" mt={4}>
        {t('noFindings')}
      </Text>
    );
  }
  return (
    <Stack component="ul" gap="sm" mt="sm" p={0} m={0} style={{ listStyle: 'none' }} aria-label={t('findings')}>
      {findings.map((one, index) => (
        <li key={index}>
          <Group gap="xs">
            <Badge size="sm" radius="sm" tt="none" variant="light" color={one.level === 'error' ? 'red' : 'yellow'}>
              {t(one.level)} {one.code}
            </Badge>
            {one.file && (
              <Text size="xs" ff="monospace">
                {[one.file, one.line, one.column].filter(Boolean).join(':')}
              </Text>
            )}
          </Group>
          <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
            {one.message}
          </Text>
          {one.excerpt.length > 0 && (
            <Code block mt={4} tabIndex={0}>
              {one.excerpt.map(([line, text]) => `${line === one.line ? '>' : ' '} ${String(line).padStart(4)} ${text}`).join('\n')}
            </Code>
          )}
        </li>
      ))}
    </Stack>
  );
}
