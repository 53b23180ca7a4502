import { Button, Text } from '@mantine/core';
import { IconDisc } from '@tabler/icons-react';
import { useSuspenseQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Empty } from '~/ui/page';
import { When } from '~/ui/when';
import { MarkDialog, markOf } from './mark';
import { messages } from './messages';
import { imagesQuery, type Image } from './queries';
import { Rows } from '~/ui/rows';
import { size, State } from './state';

export function Images() {
  const t = useTexts(messages);
  const { may, settings, project } = useSession();
  const mayMark = may('mark_image') || may('remove_image_metadata');
  const { data: all } = useSuspenseQuery(imagesQuery);
  // Installations with many projects show those of one that keeps images for all, and one's own (A7).
  const images = settings.image_project ? all.filter((one) => one.owner === settings.image_project || one.owner === project.id) : all;
  const [marked, setMarked] = useState<Image | null>(null);
  if (images.length === 0) {
    return (
      <Empty icon={IconDisc} title={t('noImages')}>
        {t('noImagesText')}
      </Empty>
    );
  }
  const copies = ({ nodes }: Image) => {
    if (!nodes) return null;
    return nodes.coming > 0 ? `${nodes.present} (+${nodes.coming}: ${t('coming', { percent: nodes.percent ?? 0 })})` : String(nodes.present);
  };
  return (
    <>
    <Rows
      label={t('images')}
      heads={[t('name'), t('marked'), t('state'), t('kind'), t('size'), t('copies'), t('published'), ...(mayMark ? [t('actions')] : [])]}
      rows={images.map((one) => ({
        key: one.uuid,
        cells: [
          one.name,
          <Mark key="mark" image={one} />,
          <State key="state" of={one.state} />,
          one.type,
          size(one.size),
          copies(one),
          <When key="at" at={one.published_at} />,
          ...(mayMark
            ? [
                <Button key="actions" variant="subtle" size="compact-sm" aria-label={t('markTitle', { name: one.name })} onClick={() => setMarked(one)}>
                  {t('mark')}
                </Button>,
              ]
            : []),
        ],
      }))}
    />
    {marked && <MarkDialog image={marked} images={images} onClose={() => setMarked(null)} />}
    </>
  );
}

/** How forms show it. One whose mark cannot be read says so. */
function Mark({ image }: { image: Image }) {
  const t = useTexts(messages);
  const mark = markOf(image);
  if (!mark) return <Text c="dimmed">–</Text>;
  return (
    <Text size="sm" c={mark.broken ? 'var(--mantine-color-error)' : undefined}>
      {mark.broken ? t('markBroken') : `${mark.title || t('noTitle')} · ${mark.type || t('noType')}`}
    </Text>
  );
}
