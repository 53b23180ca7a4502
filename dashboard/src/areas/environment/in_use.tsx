import { Button, Group, List, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useTexts } from '~/i18n';
import { Dialog } from '~/ui/dialog';
import { messages as common } from '~/ui/messages';
import { messages } from './messages';

/** A component that refers to another one, by the property at the path. */
export interface Use {
  component: string;
  component_id: string;
  path: string;
}

interface InUseProps {
  environmentId: string;
  name: string;
  uses: Use[];
  onClose: () => void;
}

/** Says why a component is not removed: who uses it, and where that is changed. */
export function InUseDialog({ environmentId, name, uses, onClose }: InUseProps) {
  const t = useTexts(messages);
  const tCommon = useTexts(common);
  return (
    <Dialog opened onClose={onClose} title={t('inUse', { name })}>
      <Stack>
        <List size="sm">
          {uses.map((one) => (
            <List.Item key={`${one.component_id} ${one.path}`}>
              <Link to="/environments/$environmentId/edit/$componentId" params={{ environmentId, componentId: one.component_id }}>
                {one.component}
              </Link>{' '}
              ({one.path})
            </List.Item>
          ))}
        </List>
        <Text size="sm">{t('inUseText')}</Text>
        <Group justify="flex-end">
          <Button data-autofocus variant="default" onClick={onClose}>
            {tCommon('close')}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
